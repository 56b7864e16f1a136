#include "lockstep/topology/device_map.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "lockstep/topology/driver_api.h"

namespace lockstep::topology {
namespace {

constexpr std::string_view kNvlinkPrefix = "NV";

/// More links than any GPU will have for a while; a larger number is a typing error.
constexpr int kMostNvlinks = 1000;

constexpr std::array<std::pair<PathKind, std::string_view>, 7> kNames{{
    {PathKind::kUnknown, "N/A"},
    {PathKind::kSystem, "SYS"},
    {PathKind::kNode, "NODE"},
    {PathKind::kHostBridge, "PHB"},
    {PathKind::kSwitches, "PXB"},
    {PathKind::kSwitch, "PIX"},
    {PathKind::kSelf, "X"},
}};

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

std::string to_string(const Path& path) {
  if (path.kind == PathKind::kNvlink) return fmt::format("{}{}", kNvlinkPrefix, path.nvlinks);
  for (const auto& [kind, name] : kNames) {
    if (kind == path.kind) return std::string(name);
  }
  return "N/A";
}

std::optional<Path> parse_path(std::string_view text) {
  for (const auto& [kind, name] : kNames) {
    if (text == name) return Path{kind, 0};
  }
  if (!text.starts_with(kNvlinkPrefix)) return std::nullopt;
  text.remove_prefix(kNvlinkPrefix.size());
  int links = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), links);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  // NV0 is no path.
  if (links < 1 || links > kMostNvlinks) return std::nullopt;
  return Path{PathKind::kNvlink, links};
}

int DeviceMap::gpus() const {
  return static_cast<int>(std::ranges::count(devices, DeviceKind::kGpu, &Device::kind));
}

std::string path_counts(const DeviceMap& map, size_t end) {
  std::map<std::string, int> counts;
  for (size_t row = 0; row < end; ++row) {
    for (size_t column = row + 1; column < end; ++column) ++counts[to_string(map.paths[row][column])];
  }
  std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
  // Ties stay in the order of their names.
  std::ranges::stable_sort(sorted, std::ranges::greater(), &std::pair<std::string, int>::second);
  std::vector<std::string> texts;
  for (const auto& [path, count] : sorted) texts.push_back(fmt::format("{} x {}", path, count));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string normal_bus_id(std::string_view text) {
  constexpr size_t kDomainDigits = 4;
  std::string id;
  for (const char c : text) id += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  // lspci leaves a domain of 0 out.
  if (std::ranges::count(id, ':') == 1) id.insert(0, "0000:");
  const size_t domain = id.find(':');
  if (domain == std::string::npos) return id;
  // Domains of more than 16 bits exist (Intel's VMD has 0x10000), so only zeros are removed.
  while (id.find(':') > kDomainDigits && id.front() == '0') id.erase(0, 1);
  return id;
}

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
