#include "lockstep/topology/visible_gpus.h"

#include <array>

#include <dlfcn.h>
#include <fmt/format.h>

#include "lockstep/topology/device_map.h"
#include "lockstep/topology/driver_api.h"

namespace lockstep::topology {
namespace {

/// "8d1e5b0c-...", in the groups of 8-4-4-4-12 digits that NVIDIA's tools print.
std::string uuid_text(const cuda_driver::Uuid& uuid) {
  std::string text;
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

/// Facts that the driver does not know stay empty.
VisibleGpu ask_about(const cuda_driver::Functions& call, cuda_driver::Device device) {
  VisibleGpu gpu;
  std::array<char, 256> text{};
  constexpr int kBytes = static_cast<int>(sizeof text);
  if (call.name.succeeds(text.data(), kBytes, device)) gpu.name = text.data();
  if (call.pci_bus_id.succeeds(text.data(), kBytes, device)) gpu.pci_bus_id = normal_bus_id(text.data());
  cuda_driver::Uuid uuid{};
  if (call.uuid.succeeds(&uuid, device)) gpu.uuid = uuid_text(uuid);
  size_t bytes = 0;
  if (call.memory.succeeds(&bytes, device)) gpu.memory_bytes = static_cast<int64_t>(bytes);
  return gpu;
}

}  // namespace

std::vector<VisibleGpu> visible_gpus(const std::string& library) {
  std::vector<VisibleGpu> gpus;
  // Never closed: the driver has threads of its own, and LibTorch uses it, too.
  void* const opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return gpus;
  const cuda_driver::Functions call{opened};
  int count = 0;
  if (!call.init.succeeds(0U) || !call.count.succeeds(&count)) return gpus;
  for (int number = 0; number < count; ++number) {
    cuda_driver::Device device = 0;
    gpus.push_back(call.get.succeeds(&device, number) ? ask_about(call, device) : VisibleGpu());
  }
  return gpus;
}

}  // namespace lockstep::topology
