#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/topology/device_map.h"
#include "lockstep/topology/driver_api.h"

namespace lockstep::topology {

/// The far end of an NVLink that is up.
struct NvLink {
  enum class To { kGpu, kSwitch, kOther };
  To to = To::kOther;
  /// Set for a GPU.
  std::string pci_bus_id;
};

/// A GPU with its NVLinks.
struct LinkedGpu : Device {
  std::vector<NvLink> links;
};

/// NVLinks between two GPUs, as `nvidia-smi topo -m` counts them: those from one to the other or, if there
/// are none, those that each has into NVSwitches (the fewer of the two). 0: none.
int nvlinks_between(const LinkedGpu& one, const LinkedGpu& other);

/// Activity of a GPU at one moment. Empty: unknown to its driver.
struct GpuSample {
  std::optional<double> sm_clock_mhz;
  std::optional<double> max_sm_clock_mhz;
  std::optional<double> memory_clock_mhz;
  std::optional<double> temperature_c;
  /// Mean over the last second on Ampere and later (except A100), else the value at this moment.
  std::optional<double> power_w;
  std::optional<double> power_limit_w;
  /// Share of the driver's last sampling period (1/6 s to 1 s) in which a kernel ran, or memory was used.
  std::optional<double> kernel_share;
  std::optional<double> memory_share;
  std::optional<int64_t> memory_used_bytes;
  std::optional<int64_t> memory_bytes;
  /// Reasons that keep the clocks down, in words ("power cap", "hardware thermal slowdown"); idleness is not
  /// one of them.
  std::vector<std::string> slowed_by;
};

/// Reasons that keep clocks down, from the bits of nvmlDeviceGetCurrentClocksEventReasons.
std::vector<std::string> slowdown_names(unsigned long long bits);

/// NVIDIA's management library, opened if the driver has installed it. Nothing here throws if it is missing,
/// and nothing changes a GPU's settings. Thread-safe, as the library is.
class Nvml {
 public:
  static constexpr const char* kLibrary = "libnvidia-ml.so.1";

  explicit Nvml(const std::string& library = kLibrary);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// The reason, as a sentence, for which GPUs cannot be queried; empty if they can be, even if there is
  /// none.
  const std::string& why_not() const { return why_not_; }

  /// Number of GPUs that this process may talk to; indices are below it. The order is the driver's, which
  /// need not be that of the CUDA runtime.
  int gpus() const { return static_cast<int>(devices_.size()); }
  /// The index of the GPU at this place of the PCI bus, in any notation.
  std::optional<int> index_of(std::string_view pci_bus_id) const;

  /// These GPUs, with the paths between them: NVLinks, or else the driver's kind of path over PCIe.
  DeviceMap map() const;
  GpuSample sample(int index) const;

 private:
  std::string reason(const char* what, nvml::Return result) const;
  LinkedGpu linked_gpu(nvml::Device device) const;
  std::vector<NvLink> links(nvml::Device device) const;
  Path pci_path(nvml::Device one, nvml::Device other) const;

  nvml::Functions call_;
  bool initialized_ = false;
  std::string why_not_;
  std::vector<nvml::Device> devices_;
};

}  // namespace lockstep::topology
