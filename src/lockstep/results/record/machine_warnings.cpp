#include "lockstep/results/record/machine_warnings.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/units.h"

namespace lockstep::results {
namespace {

/// Runnable tasks that a host may have beside us; on a large one some always run.
constexpr double kOtherLoad = 0.5;
constexpr double kOtherLoadPerThread = 0.02;
/// Pages that were swapped out long ago and are not needed do no harm.
constexpr int64_t kSwapBytes = 64 * kMiB;

/// A loud warning: ranks that take turns on a core measure the scheduler.
Warning too_many_threads(const HostPlan& plan, int cores) {
  return {
      fmt::format("{} of {} need {}, but there {} {}: ranks take turns, and the numbers say nothing about "
                  "scaling.",
                  counted(plan.ranks, "rank"), counted(plan.threads_per_rank, "thread"),
                  counted(plan.ranks * plan.threads_per_rank, "core"), cores == 1 ? "is" : "are",
                  counted(cores, "usable core")),
      fmt::format("Use --ranks up to {}, or fewer --threads.", std::max(1, cores / plan.threads_per_rank)),
      true};
}

using topology::GpuUse;
using topology::Slowdown;

/// Least shares for a warning.
constexpr double kSlowedShare = 0.05;
constexpr double kClockDifference = 0.05;

/// "power cap in 33 % of the samples, hardware thermal slowdown in 2 %".
std::string slowdowns_text(const GpuUse& use) {
  std::vector<std::string> parts;
  for (const Slowdown& slowdown : use.slowed_by) {
    parts.push_back(fmt::format("{} in {:.0f} %{}", slowdown.by, 100 * slowdown.share,
                                parts.empty() ? " of the samples" : ""));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

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

/// "mlx5_0, mlx5_1"; "none" without network devices.
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

/// Whether the paths of the two can be compared entry by entry.
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

/// "GPU driver: 570.1 instead of 580.65; paths: GPU0-GPU1 PIX instead of NV2".
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

std::vector<Warning> machine_warnings(const Machine& machine, const HostPlan& plan) {
  std::vector<Warning> warnings;
  if (plan.ranks * plan.threads_per_rank > machine.cores) {
    warnings.push_back(too_many_threads(plan, machine.cores));
  }
  const double quiet = std::max(kOtherLoad, kOtherLoadPerThread * machine.host_hardware_threads);
  if (machine.load_average && *machine.load_average > quiet) {
    warnings.push_back({fmt::format("The machine was busy before the run (load {:.2f} in the last minute).",
                                    *machine.load_average),
                        "Stop other programs, or wait a minute if it was a build, and run again."});
  }
  if (machine.cpu_quota) {
    warnings.push_back(
        {fmt::format("A quota leaves this job {:.2f} of the {} hardware threads that it sees: it is "
                     "stopped for the rest of a period whenever it has used that up.",
                     *machine.cpu_quota, machine.hardware_threads),
         "Give the job whole cores (a cpuset) instead of a quota."});
  }
  if (machine.swap_used_bytes > kSwapBytes) {
    warnings.push_back({fmt::format("{} of swap are in use.", format_bytes(machine.swap_used_bytes)),
                        "Free memory, or turn swap off (swapoff -a), so that no rank waits for a disk."});
  }
  if (machine.governor == "powersave") {
    warnings.push_back({"The frequency governor is 'powersave': cores may run below their speed.",
                        "Set it: cpupower frequency-set -g performance."});
  }
  return warnings;
}

std::vector<Warning> gpu_warnings(const std::vector<GpuUse>& by_rank) {
  std::vector<Warning> warnings;
  if (by_rank.empty()) return warnings;
  const auto slowed = [](const GpuUse& use) { return use.slowed_share > kSlowedShare; };
  const auto ranks = std::ranges::count_if(by_rank, slowed);
  const auto worst = std::ranges::max_element(by_rank, {}, &GpuUse::slowed_share);
  if (ranks > 0) {
    std::string text = fmt::format("The GPU of rank {} was slowed down: {}.", worst - by_rank.begin(),
                                   slowdowns_text(*worst));
    if (worst->sm_clock_mhz && worst->max_sm_clock_mhz) {
      text += fmt::format(" Its clock was {:.0f} to {:.0f} of {:.0f} MHz.", worst->sm_clock_mhz->least,
                          worst->sm_clock_mhz->most, *worst->max_sm_clock_mhz);
    }
    if (ranks > 1) text += fmt::format(" Of {} ranks it is the worst.", ranks);
    warnings.push_back(
        {std::move(text),
         "nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE says more. Compare only with runs that "
         "were held back alike."});
  }
  // Leaves out GPUs whose driver reports no clock.
  const GpuUse* slowest = nullptr;
  const GpuUse* fastest = nullptr;
  for (const GpuUse& use : by_rank) {
    if (!use.sm_clock_mhz) continue;
    if (slowest == nullptr || use.sm_clock_mhz->median < slowest->sm_clock_mhz->median) slowest = &use;
    if (fastest == nullptr || use.sm_clock_mhz->median > fastest->sm_clock_mhz->median) fastest = &use;
  }
  if (slowest != nullptr &&
      slowest->sm_clock_mhz->median < (1 - kClockDifference) * fastest->sm_clock_mhz->median) {
    warnings.push_back({fmt::format("The GPU of rank {} ran at {:.0f} MHz, that of rank {} at {:.0f} MHz.",
                                    slowest - by_rank.data(), slowest->sm_clock_mhz->median,
                                    fastest - by_rank.data(), fastest->sm_clock_mhz->median),
                        "A step takes as long as its slowest rank: see what is different about that GPU."});
  }
  return warnings;
}

std::vector<Warning> shared_gpu_warnings(const std::vector<topology::RankGpu>& by_rank) {
  const std::string text = shared_gpus_text(by_rank);
  if (text.empty()) return {};
  return {{fmt::format("Ranks share GPUs ({}): they take turns, and the numbers say nothing about scaling.",
                       text),
           "Give every rank a GPU of its own, without --share-device.", true}};
}

std::vector<Warning> host_differences(const std::vector<Machine>& machines) {
  std::vector<Warning> warnings;
  const bool gpus = std::ranges::any_of(machines, [](const Machine& one) { return one.map.gpus() > 0; });
  if (!gpus || machines.size() < 2) return warnings;
  const Machine& usual = usual_machine(machines);
  for (const Machine& machine : machines) {
    if (alike(machine, usual)) continue;
    warnings.push_back(
        {fmt::format("{} is not like {}: {}.", machine.host, usual.host, difference_text(machine, usual)),
         "Compare what lockstep topo prints on both; a step takes as long as its slowest rank."});
  }
  return warnings;
}

}  // namespace lockstep::results
