#pragma once

#include <string>
#include <vector>

#include "lockstep/base/registry.h"

namespace lockstep::kernels {

/// aten: every block is a sequence of LibTorch's operations. fused: in training, convolutions, linear layers
/// and pooling use oneDNN in its own layouts, and batch normalization is fused with the operations that
/// follow it. Layers that are not covered (KernelsInfo::falls_back) use LibTorch's operations.
enum class KernelChoice { kAten, kFused };

/// The name of a choice that is made by measuring steps with either of the others
/// (train/job/kernel_trials.h); until then it means default_kernels().
inline constexpr const char* kAuto = "auto";

/// A choice of kernels as `lockstep info kernels` describes it.
struct KernelsInfo {
  KernelChoice choice;
  /// One line.
  std::string description;
  /// The layers that these kernels compute, and those that LibTorch computes nevertheless.
  std::vector<std::string> covers;
  std::vector<std::string> falls_back;
};

const Registry<KernelsInfo>& registry();

/// Throws ConfigError with the nearest names.
KernelChoice parse_kernels(const std::string& name);

/// Why `fused` is not available in this build or process; empty if it is.
std::string why_no_fused_kernels();
constexpr const char* kNoFusedKernelsAdvice = "Run 'make setup' and build again, or use --kernels aten.";

/// The library and instruction set behind the kernels of this name: "oneDNN 3.2.0, avx512_core" for `fused`
/// if it is available, otherwise empty; on GPUs the plugin. Throws ConfigError with the nearest names.
std::string kernel_detail(const std::string& name, bool on_gpu = false);

/// "fused" if it is available, else "aten".
std::string default_kernels();

}  // namespace lockstep::kernels
