#pragma once

#include <string>

namespace lockstep::train {

/// "0.1.0".
std::string lockstep_version();
/// The linked LibTorch's: "2.11.0".
std::string torch_version();
/// "lockstep 0.1.0 (LibTorch 2.11.0)".
std::string version_text();

/// The CUDA and cuDNN that LibTorch computes with, "13.0" and "9.15.0"; empty without them.
std::string cuda_version();
std::string cudnn_version();

}  // namespace lockstep::train
