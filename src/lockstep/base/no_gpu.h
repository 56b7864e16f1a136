#pragma once

#include <string>

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
std::string cuda_version_text(int version);

/// Throws BackendMissing: no driver, a driver that is too old, or no GPU.
[[noreturn]] void throw_no_gpu(const NoGpu& found);

}  // namespace lockstep
