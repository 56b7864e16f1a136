#include "lockstep/results/record/host_differences.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/units.h"

namespace lockstep::results {
namespace {

using topology::Device;
using topology::DeviceKind;
using topology::DeviceMap;

/// Names and values that are compared; the same names for every host.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// "8 x NVIDIA H200 with 140.4 GiB".
std::string gpus_text(const DeviceMap& map) {
  std::vector<std::pair<std::string, int>> counts;
  for (const Device& device : map.devices) {
    if (device.kind != DeviceKind::kGpu) continue;
    std::string text = device.name;
    if (device.memory_bytes > 0) text += fmt::format(" with {}", format_bytes(device.memory_bytes));
    if (counts.empty() || counts.back().first != text) counts.emplace_back(text, 0);
    ++counts.back().second;
  }
  std::vector<std::string> texts;
  for (const auto& [text, count] : counts) texts.push_back(fmt::format("{} x {}", count, text));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

std::string nics_text(const DeviceMap& map) {
  std::vector<std::string> labels;
  for (const Device& device : map.devices) {
    if (device.kind == DeviceKind::kNic) labels.push_back(device.label);
  }
  return labels.empty() ? "none" : fmt::format("{}", fmt::join(labels, ", "));
}

Facts facts_of(const Machine& machine) {
  const std::string& driver = machine.map.driver_version;
  return {{"GPUs", gpus_text(machine.map)},
          {"GPU driver", driver.empty() ? "unknown" : driver},
          {"network devices", nics_text(machine.map)}};
}

/// Paths that differ between two hosts with the same devices: "GPU0-GPU1 PIX instead of NV2".
std::vector<std::string> other_paths(const DeviceMap& map, const DeviceMap& usual) {
  std::vector<std::string> found;
  for (size_t row = 0; row < map.devices.size(); ++row) {
    for (size_t column = row + 1; column < map.devices.size(); ++column) {
      if (map.paths[row][column] == usual.paths[row][column]) continue;
      found.push_back(fmt::format("{}-{} {} instead of {}", map.devices[row].label, map.devices[column].label,
                                  to_string(map.paths[row][column]), to_string(usual.paths[row][column])));
    }
  }
  return found;
}

bool same_devices(const DeviceMap& one, const DeviceMap& other) {
  return std::ranges::equal(one.devices, other.devices, {}, &Device::label, &Device::label);
}

bool alike(const Machine& one, const Machine& other) {
  return facts_of(one) == facts_of(other) && same_devices(one.map, other.map) &&
         one.map.paths == other.map.paths;
}

/// The first of the largest group of hosts that are alike.
const Machine& usual_machine(const std::vector<Machine>& machines) {
  return *std::ranges::max_element(machines, {}, [&](const Machine& machine) {
    return std::ranges::count_if(machines, [&](const Machine& other) { return alike(machine, other); });
  });
}

std::string difference_text(const Machine& machine, const Machine& usual) {
  std::vector<std::string> parts;
  const Facts facts = facts_of(machine);
  const Facts others = facts_of(usual);
  for (size_t i = 0; i < facts.size(); ++i) {
    if (facts[i].second == others[i].second) continue;
    parts.push_back(fmt::format("{}: {} instead of {}", facts[i].first, facts[i].second, others[i].second));
  }
  if (same_devices(machine.map, usual.map)) {
    constexpr size_t kShown = 4;
    std::vector<std::string> paths = other_paths(machine.map, usual.map);
    const size_t more = paths.size() - std::min(kShown, paths.size());
    paths.resize(paths.size() - more);
    if (!paths.empty()) {
      parts.push_back(fmt::format("paths: {}{}", fmt::join(paths, ", "),
                                  more > 0 ? fmt::format(" and {} more", more) : ""));
    }
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

std::vector<Warning> host_differences(const std::vector<Machine>& machines) {
  std::vector<Warning> warnings;
  const bool gpus = std::ranges::any_of(machines, [](const Machine& one) { return one.map.gpus() > 0; });
  if (!gpus || machines.size() < 2) return warnings;
  const Machine& usual = usual_machine(machines);
  for (const Machine& machine : machines) {
    if (alike(machine, usual)) continue;
    warnings.push_back(
        {fmt::format("{} is not like {}: {}.", machine.host, usual.host, difference_text(machine, usual)),
         "Compare what lockstep topo prints on both; a step takes as long as its slowest rank.", false});
  }
  return warnings;
}

}  // namespace lockstep::results
