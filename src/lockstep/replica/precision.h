#pragma once

#include <string>
#include <vector>

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

namespace lockstep::replica {

/// The number format of a network's computations. Parameters are fp32 in all of them.
///
/// - fp32: everything in single precision.
///     fp32        everything in single precision
///     tf32        fp32, but a GPU's tensor cores may round factors to 10 bits of mantissa
///     bf16, fp16  autocast: convolutions and linear layers compute in that type; fp16 with LossScale
///     bf16_pure   the results of bf16, from bf16 copies (WeightCopies) of fp32 weights; batch normalization
///                 has no copies
enum class Precision { kFp32, kTf32, kBf16, kBf16Pure, kFp16 };

std::vector<std::string> precision_names();
/// Throws ConfigError with the nearest names.
Precision parse_precision(const std::string& name);
/// The precisions of a device: all of them on a GPU, fp32 and bf16 on a CPU.
std::vector<std::string> precision_names(c10::DeviceType device);
/// Throws ConfigError for an unknown name, and for one that the device does not support (with those that it
/// does).
void check_precision(const std::string& name, c10::DeviceType device);

/// Bytes per value of an activation between two layers.
int bytes_per_number(Precision precision);
/// Whether the loss must be scaled (LossScale).
bool needs_loss_scale(Precision precision);
/// Whether blocks compute with bf16 copies of their weights (WeightCopies).
bool keeps_weight_copies(Precision precision);

/// How cuDNN chooses its algorithms.
enum class Algorithms {
  /// By timing them at the first use of every shape. Some sum in the order in which threads finish, so the
  /// same input can give different bits.
  kFastest,
  /// By its heuristics, among those that always give the same bits.
  kRepeatable
};

/// Sets LibTorch's process-wide switches for a GPU: whether TF32 is allowed, and how algorithms are chosen.
/// Does nothing on a CPU. Call before a row is trained; threads that train at the same time must agree.
/// Thread-safe.
void set_up_precision(Precision precision, c10::DeviceType device,
                      Algorithms algorithms = Algorithms::kFastest);

/// Whether autocast is on in the calling thread.
bool is_autocast_on(c10::DeviceType device);

/// Sets the calling thread's autocast state for one forward pass and its loss, and restores the previous one.
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

/// The calling thread's type of autocast, for other threads to take over: at::ThreadLocalState leaves it
/// behind.
class AutocastType {
 public:
  explicit AutocastType(c10::DeviceType device);
  void take_over() const;

 private:
  c10::DeviceType device_;
  c10::ScalarType type_;
};

}  // namespace lockstep::replica
