#pragma once

#include <string>
#include <vector>

#include "lockstep/base/registry.h"

namespace lockstep::kernels {

/// aten: every block is LibTorch's operations, one after the other. fused: while training, convolutions,
/// linear layers and pooling are oneDNN's, in its own layouts, and batch normalisation is one pass with what
/// follows it; what is not covered (KernelsInfo::falls_back) is LibTorch's all the same.
enum class KernelChoice { kAten, kFused };

/// What a choice is, as `lockstep info kernels` tells it.
struct KernelsInfo {
  KernelChoice choice;
  /// In a line.
  std::string description;
  /// What is computed so, and what LibTorch computes all the same.
  std::vector<std::string> covers;
  std::vector<std::string> falls_back;
};

const Registry<KernelsInfo>& registry();

/// Throws ConfigError with the nearest names.
KernelChoice parse_kernels(const std::string& name);

/// Why `fused` cannot be had in this build or process; empty where it can.
std::string why_no_fused_kernels();
constexpr const char* kNoFusedKernelsAdvice = "Run 'make setup' and build again, or use --kernels aten.";

/// What computes the kernels of this name: "oneDNN 3.2.0, avx512_core" for `fused`, where it can be had, and
/// empty otherwise. Throws ConfigError with the nearest names.
std::string kernel_detail(const std::string& name);

/// `fused` where it can be had.
std::string default_kernels();

}  // namespace lockstep::kernels
