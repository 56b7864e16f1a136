#pragma once

#include <string>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {

/// The CUDA runtime's findings on a machine without a usable GPU. Versions as CUDA counts them: 12040
/// is 12.4.
struct NoGpu {
  /// Its error, by name and in words: "cudaErrorNoDevice: no CUDA-capable device is detected".
  std::string reason;
  /// The driver is too old (cudaErrorInsufficientDriver).
  bool driver_too_old = false;
  /// The newest CUDA that the driver supports; 0 without a driver.
  int driver_version = 0;
  /// The runtime's own version, and the software that ships it: "this lockstep".
  int runtime_version = 0;
  std::string runtime_of;
};

/// "12.4" for 12040.
inline std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// Throws BackendMissing: no driver, a driver that is too old, or no GPU.
[[noreturn]] inline void throw_no_gpu(const NoGpu& found) {
  // In the order in which a user can mend it: the driver, its version, and only then the GPU itself.
  if (found.driver_version == 0) {
    throw BackendMissing(fmt::format("there is no NVIDIA driver on this machine ({})", found.reason),
                         "install the driver of the machine's GPU, or use a machine with one");
  }
  if (found.driver_too_old) {
    throw BackendMissing(fmt::format("the NVIDIA driver supports CUDA up to {}, but {} needs CUDA {} ({})",
                                     cuda_version_text(found.driver_version), found.runtime_of,
                                     cuda_version_text(found.runtime_version), found.reason),
                         "update the driver");
  }
  throw BackendMissing(fmt::format("this process sees no NVIDIA GPU ({})", found.reason),
                       "see whether nvidia-smi lists one, and what CUDA_VISIBLE_DEVICES leaves of them");
}

}  // namespace lockstep
