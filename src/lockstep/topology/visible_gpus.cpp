#include "lockstep/topology/visible_gpus.h"

#include <array>

#include <dlfcn.h>
#include <fmt/format.h>

#include "lockstep/topology/cuda_driver_api.h"
#include "lockstep/topology/device_map.h"

namespace lockstep::topology {
namespace {

using cuda_driver::succeeds;

template <typename Function>
void find_in(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
}

cuda_driver::Functions driver_functions(void* library) {
  cuda_driver::Functions call;
  find_in(library, "cuInit", call.init);
  find_in(library, "cuDeviceGetCount", call.count);
  find_in(library, "cuDeviceGet", call.get);
  find_in(library, "cuDeviceGetName", call.name);
  find_in(library, "cuDeviceGetPCIBusId", call.pci_bus_id);
  find_in(library, "cuDeviceGetUuid_v2", call.uuid);
  find_in(library, "cuDeviceTotalMem_v2", call.memory);
  return call;
}

/// "8d1e5b0c-...", in the groups of 8-4-4-4-12 digits that NVIDIA's tools print.
std::string uuid_text(const cuda_driver::Uuid& uuid) {
  std::string text;
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

/// Facts that the driver does not tell stay empty.
VisibleGpu ask_about(const cuda_driver::Functions& call, cuda_driver::Device device) {
  VisibleGpu gpu;
  std::array<char, 256> text{};
  constexpr int kBytes = static_cast<int>(sizeof text);
  if (succeeds(call.name, text.data(), kBytes, device)) gpu.name = text.data();
  if (succeeds(call.pci_bus_id, text.data(), kBytes, device)) gpu.pci_bus_id = normal_bus_id(text.data());
  cuda_driver::Uuid uuid{};
  if (succeeds(call.uuid, &uuid, device)) gpu.uuid = uuid_text(uuid);
  size_t bytes = 0;
  if (succeeds(call.memory, &bytes, device)) gpu.memory_bytes = static_cast<int64_t>(bytes);
  return gpu;
}

}  // namespace

std::vector<VisibleGpu> visible_gpus(const std::string& library) {
  std::vector<VisibleGpu> gpus;
  // Never closed: the driver has threads of its own, and LibTorch uses it, too.
  void* const opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return gpus;
  const cuda_driver::Functions call = driver_functions(opened);
  int count = 0;
  if (!succeeds(call.init, 0U) || !succeeds(call.count, &count)) return gpus;
  for (int number = 0; number < count; ++number) {
    cuda_driver::Device device = 0;
    gpus.push_back(succeeds(call.get, &device, number) ? ask_about(call, device) : VisibleGpu());
  }
  return gpus;
}

}  // namespace lockstep::topology
