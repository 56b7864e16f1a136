#pragma once

#include <string>

namespace lockstep::cli {

// What LibTorch computes with on GPUs; empty where it has none.

/// "13.0".
std::string cuda_version();
/// "9.15.0".
std::string cudnn_version();

}  // namespace lockstep::cli
