#include "lockstep/topology/rank_mask.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"

namespace lockstep::topology {
namespace {

constexpr char kMaskSeparator = ' ';

/// "0,1,4".
std::vector<int> numbers_in(std::string_view text) {
  std::vector<int> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc() || (rest != end && *rest != ',')) {
      throw Error(fmt::format("a rank's processors are no list of numbers: {}", text));
    }
    numbers.push_back(number);
    at = rest == end ? end : rest + 1;
  }
  return numbers;
}

}  // namespace

std::string RankMask::text() const {
  return fmt::format("{}{}{}{}{}", fmt::join(cores, ","), kMaskSeparator, fmt::join(hardware_threads, ","),
                     kMaskSeparator, host);
}

RankMask RankMask::parse(std::string_view text) {
  const size_t first = text.find(kMaskSeparator);
  const size_t second = first == std::string_view::npos ? first : text.find(kMaskSeparator, first + 1);
  if (second == std::string_view::npos) throw Error(fmt::format("no processors of a rank: '{}'", text));
  return {.host = std::string(text.substr(second + 1)),
          .cores = numbers_in(text.substr(0, first)),
          .hardware_threads = numbers_in(text.substr(first + 1, second - first - 1))};
}

void unite_masks(const std::vector<RankMask>& masks, std::vector<Machine>& machines) {
  for (Machine& machine : machines) {
    std::set<int> cores, hardware_threads;
    for (const RankMask& mask : masks) {
      if (mask.host != machine.host) continue;
      cores.insert(mask.cores.begin(), mask.cores.end());
      hardware_threads.insert(mask.hardware_threads.begin(), mask.hardware_threads.end());
    }
    if (cores.empty()) continue;
    machine.cores = static_cast<int>(cores.size());
    machine.hardware_threads = static_cast<int>(hardware_threads.size());
    // A thread that has used up the quota is stopped until the next period, so only whole cores count.
    if (machine.cpu_quota) {
      machine.cores = std::clamp(static_cast<int>(std::floor(*machine.cpu_quota + 1e-6)), 1, machine.cores);
    }
  }
}

}  // namespace lockstep::topology
