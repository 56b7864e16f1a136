#pragma once

#include <string>

namespace lockstep::cli {

/// "0.1.0".
std::string lockstep_version();
/// LibTorch's, as it is linked: "2.11.0".
std::string torch_version();
/// "lockstep 0.1.0 (LibTorch 2.11.0)".
std::string version_text();

}  // namespace lockstep::cli
