#include "lockstep/topology/device_map.h"

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>

namespace lockstep::topology {

int DeviceMap::gpus() const {
  return static_cast<int>(std::ranges::count(devices, DeviceKind::kGpu, &Device::kind));
}

std::string path_counts(const DeviceMap& map, size_t end) {
  std::map<std::string, int> counts;
  for (size_t row = 0; row < end; ++row) {
    for (size_t column = row + 1; column < end; ++column) ++counts[to_string(map.paths[row][column])];
  }
  std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::ranges::greater(), &std::pair<std::string, int>::second);
  std::vector<std::string> texts;
  for (const auto& [path, count] : sorted) texts.push_back(fmt::format("{} x {}", path, count));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string normal_bus_id(std::string_view text) {
  constexpr size_t kDomainDigits = 4;
  std::string id;
  for (const char c : text) id += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (std::ranges::count(id, ':') == 1) id.insert(0, "0000:");
  const size_t domain = id.find(':');
  if (domain == std::string::npos) return id;
  // Domains of more than 16 bits are real (Intel's VMD has 0x10000), so only zeros go.
  while (id.find(':') > kDomainDigits && id.front() == '0') id.erase(0, 1);
  return id;
}

}  // namespace lockstep::topology
