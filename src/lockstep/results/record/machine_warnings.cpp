#include "lockstep/results/record/machine_warnings.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/measure/interval.h"
#include "lockstep/measure/series.h"
#include "lockstep/measure/stopping.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/launches.h"
#include "lockstep/results/record/resources.h"
#include "lockstep/results/record/run_record.h"

namespace lockstep::results {
namespace {

using topology::Device;
using topology::DeviceKind;
using topology::DeviceMap;
using topology::GpuUse;
using topology::RankUse;
using topology::Slowdown;

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

/// Least shares for a warning.
constexpr double kOtherLoadShare = 0.05;
constexpr double kStolen = 0.02;
constexpr double kFrequencyDrop = 0.05;
constexpr double kOutliers = 0.05;
/// Multiple of the median from which the slowest of them is worth a warning.
constexpr double kSlow = 1.25;
constexpr int64_t kSwapped = 16 << 20;
/// Least ratio of the median steps of ranks that train alone for a warning.
constexpr double kRankDifference = 1.1;

/// A host, and the processor time that this job used of it.
struct HostShare {
  const RankUse* seen = nullptr;
  double own_cpu_s = 0;

  double capacity_s() const { return seen->wall_s * seen->host_hardware_threads; }
  double other_load() const { return std::max(0.0, seen->host_busy_s - own_cpu_s) / capacity_s(); }
};

/// One rank per process: ranks that are threads of a process all report its processor time.
std::vector<const RankUse*> processes(const std::vector<RankUse>& use) {
  std::map<std::pair<int64_t, int64_t>, const RankUse*> by_process;
  for (const RankUse& rank : use) by_process.emplace(std::pair(rank.host, rank.process), &rank);
  std::vector<const RankUse*> all;
  all.reserve(by_process.size());
  for (const auto& [ignored, rank] : by_process) all.push_back(rank);
  return all;
}

/// Each host once. Hosts that report no time are left out, since shares of it are undefined.
std::vector<HostShare> hosts(const std::vector<RankUse>& use) {
  std::map<int64_t, HostShare> by_host;
  for (const RankUse* process : processes(use)) {
    HostShare& host = by_host[process->host];
    if (host.seen == nullptr) host.seen = process;
    host.own_cpu_s += process->cpu_s;
  }
  std::vector<HostShare> all;
  for (const auto& [ignored, host] : by_host) {
    if (host.capacity_s() > 0) all.push_back(host);
  }
  return all;
}

/// Fills the members of Resources that list a number of every rank; a visitor of Resources::describe.
struct FromRanks {
  const std::vector<RankUse>& use;

  void operator()(const char*, std::vector<int64_t>& list, const PerRank& number) const {
    for (const RankUse& rank : use) {
      if (!number.only_positive || rank.*number.of > 0) list.push_back(rank.*number.of);
    }
  }
  template <typename T>
  void operator()(const char*, T&, const FieldRule& = {}) const {}
};

/// "12 %".
std::string percent(double share) {
  return fmt::format("{:.0f} %", 100 * share);
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

Resources resources_of(const std::vector<RankUse>& use, int threads_per_rank) {
  Resources resources;
  const FromRanks from_ranks{use};
  Resources::describe(from_ranks, resources);
  double cpu_s = 0, communication_s = 0, wall_s = 0;
  double frequency_sum_mhz = 0;
  int frequencies = 0;
  // Per process, since ranks that are threads of a process all report its whole time.
  for (const RankUse* process : processes(use)) cpu_s += process->cpu_s;
  for (const RankUse& rank : use) {
    communication_s += rank.communication_cpu_s;
    wall_s += rank.wall_s;
    // 0 stands for an unknown frequency.
    for (const double mhz : {rank.frequency_at_begin_mhz, rank.frequency_at_end_mhz}) {
      if (mhz <= 0) continue;
      frequency_sum_mhz += mhz;
      ++frequencies;
    }
  }
  const double core_s = wall_s * std::max(1, threads_per_rank);
  if (core_s > 0) {
    resources.processor_utilisation = cpu_s / core_s;
    resources.communication_threads = communication_s / core_s;
  }
  if (frequencies > 0) resources.mean_frequency_mhz = frequency_sum_mhz / frequencies;
  double other = 0, capacity_s = 0;
  for (const HostShare& host : hosts(use)) {
    other += host.other_load() * host.capacity_s();
    capacity_s += host.capacity_s();
  }
  // Weighted by capacity: a large host counts for more.
  if (capacity_s > 0) resources.other_load = other / capacity_s;
  return resources;
}

std::vector<Warning> resource_warnings(const std::vector<RankUse>& use) {
  std::vector<Warning> warnings;
  double other = 0, stolen = 0, frequency_drop = 0;
  int64_t swapped_bytes = 0;
  for (const HostShare& host : hosts(use)) {
    other = std::max(other, host.other_load());
    stolen = std::max(stolen, host.seen->host_stolen_s / host.capacity_s());
    swapped_bytes = std::max(swapped_bytes, host.seen->host_swapped_out_bytes);
  }
  for (const RankUse& rank : use) {
    if (rank.frequency_at_begin_mhz <= 0) continue;
    frequency_drop = std::max(frequency_drop, 1 - rank.frequency_at_end_mhz / rank.frequency_at_begin_mhz);
  }
  if (other > kOtherLoadShare) {
    warnings.push_back({fmt::format("Other programs used {} of the processors while it ran.", percent(other)),
                        "End them, and measure again."});
  }
  if (stolen > kStolen) {
    warnings.push_back(
        {fmt::format("The hypervisor gave {} of the processor time to others while it ran.", percent(stolen)),
         "Use a machine of your own, or --repeat to see how much launches differ."});
  }
  if (swapped_bytes > kSwapped) {
    warnings.push_back({fmt::format("{} were swapped out while it ran.", format_bytes(swapped_bytes)),
                        "Use a smaller --batch or fewer ranks.", true});
  }
  if (frequency_drop > kFrequencyDrop) {
    warnings.push_back({fmt::format("The clock frequency was {} lower at the end than at the begin.",
                                    percent(frequency_drop)),
                        "The processor throttles: improve its cooling, fix the frequency, or run longer."});
  }
  return warnings;
}

std::vector<Warning> series_warnings(const Run& run) {
  std::vector<Warning> warnings;
  // Diagnoses each launch by itself: a shift between two launches is no fault.
  for (const std::vector<double>& steps : representative_steps_by_launch(run)) {
    if (steps.empty()) continue;
    const measure::SeriesDiagnosis found = measure::diagnose(steps);
    if (found.trend || found.level_shift) {
      warnings.push_back({fmt::format("The steps did not stay the same: {}.", found.text()),
                          "Run longer, or look for what else runs on the machine."});
    } else if (found.outliers.share > kOutliers && found.outliers.largest_ratio > kSlow) {
      warnings.push_back({fmt::format("{} of the steps are outliers, the slowest {:.1f} times the median.",
                                      percent(found.outliers.share), found.outliers.largest_ratio),
                          "Something disturbs the run now and then: trust the median, not p95."});
    }
  }
  return warnings;
}

std::vector<Warning> rank_warnings(const Run& run) {
  if (run.role() != Role::kControl || run.ranks < 2 || run.samples.empty()) return {};
  std::vector<double> median_s;
  for (size_t rank = 0; rank < run.samples.front().size(); ++rank) {
    std::vector<double> step_s = steps_of_rank(run.samples, rank);
    std::ranges::sort(step_s);
    median_s.push_back(measure::percentile_of_sorted(step_s, 50));
  }
  const auto [fastest, slowest] = std::ranges::minmax_element(median_s);
  if (!(*slowest > kRankDifference * *fastest)) return {};
  return {
      {fmt::format("The median step of rank {} took {}, that of rank {} {}, though each trained alone.",
                   slowest - median_s.begin(), format_duration(*slowest), fastest - median_s.begin(),
                   format_duration(*fastest)),
       "The machine did not treat its ranks alike: distrust efficiency and its factors, look for what else "
       "runs on these cores, and measure again."}};
}

std::vector<Warning> breakdown_warnings(const Run& run, const std::vector<double>& breakdown_step_s) {
  if (breakdown_step_s.empty() || !(run.images_per_s > 0)) return {};
  // Few steps: takes the uncertainty of their mean whether or not they had settled.
  const measure::Estimate broken_down = measure::mean_estimate(breakdown_step_s, {.check_settled = false});
  const double images = run.ranks * run.images_per_rank_step();
  const double step_s = images / run.images_per_s;
  const double ratio = broken_down.value / step_s;
  std::optional<measure::Interval> interval;
  if (const auto rate = bounded_rate(run); rate && broken_down.interval) {
    interval =
        measure::ratio_interval({broken_down.value, broken_down.interval->lower, broken_down.interval->upper},
                                {step_s, images / rate->upper, images / rate->lower});
  }
  if (!differs_from_1(ratio, interval)) return {};
  return {
      {fmt::format(
           "A step took {} in the breakdown's run, but {} in the one that throughput is of ({:+.0f} %).",
           format_duration(broken_down.value), format_duration(step_s), 100 * (ratio - 1)),
       "Phases, waiting and the factors of efficiency may not be those of the throughput: measure again."}};
}

}  // namespace lockstep::results
