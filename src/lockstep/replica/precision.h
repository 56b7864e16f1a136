#pragma once

#include <string>
#include <vector>

#include <c10/core/DeviceType.h>

namespace lockstep::replica {

/// What a network computes in; its parameters are fp32 in all of these.
///
/// - fp32: everything in single precision.
/// - tf32: the same, where a GPU may round the factors of convolutions and matrix products to 10 bits of
///   mantissa, as its tensor cores do.
/// - bf16, fp16: autocast, so convolutions and linear layers compute in that type; fp16 with LossScale.
/// - bf16_pure: the same numbers as bf16 from weights that are bf16 to begin with (WeightCopies), with fp32
///   masters. Batch normalisation's are not.
enum class Precision { kFp32, kTf32, kBf16, kBf16Pure, kFp16 };

std::vector<std::string> precision_names();
/// Throws ConfigError with the nearest names.
Precision parse_precision(const std::string& name);
/// Those that a device knows: all of them on a GPU, fp32 and bf16 on a CPU.
std::vector<std::string> precision_names(c10::DeviceType device);
/// Throws ConfigError, for an unknown name as parse_precision, and for one that the device does not know with
/// what it does know.
void check_precision(const std::string& name, c10::DeviceType device);

/// Of an activation between two layers.
int bytes_per_number(Precision precision);
/// Whether the loss has to be scaled (LossScale).
bool needs_loss_scale(Precision precision);
/// Whether blocks compute with copies of their weights that are kept beside them (WeightCopies, of bf16).
bool keeps_weight_copies(Precision precision);

/// How cuDNN chooses its algorithms.
enum class Algorithms {
  /// It times them at the first use of every shape and takes the fastest. Some add up in the order in which
  /// their threads come, so that the same numbers give other bits.
  kFastest,
  /// Of those that always give the same bits, the one that it thinks best.
  kRepeatable
};

/// Sets what LibTorch knows per process and not per operation: on a GPU whether TF32 is allowed, and how
/// algorithms are chosen. Nothing on a CPU. Before a row is trained; the same for all threads of the process
/// that train at a time. Thread-safe.
void set_up_precision(Precision precision, c10::DeviceType device,
                      Algorithms algorithms = Algorithms::kFastest);

/// Autocast state of this thread for one forward pass and its loss; the previous state comes back at the end.
class AutocastScope {
 public:
  AutocastScope(Precision precision, c10::DeviceType device);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool active_;
  c10::DeviceType device_;
  bool was_enabled_ = false;
};

}  // namespace lockstep::replica
