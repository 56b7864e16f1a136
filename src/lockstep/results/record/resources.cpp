#include "lockstep/results/record/resources.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/measure/interval.h"
#include "lockstep/measure/percentiles.h"
#include "lockstep/measure/series_diagnosis.h"
#include "lockstep/results/record/doubt.h"
#include "lockstep/results/record/launches.h"
#include "lockstep/results/record/run_record.h"
#include "lockstep/results/record/summarize.h"

namespace lockstep::results {
namespace {

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

using topology::RankUse;

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
