#include "lockstep/topology/device_map.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <utility>

#include <fmt/format.h>

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

}  // namespace lockstep::topology
