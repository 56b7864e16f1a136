#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/base/fields.h"
#include "lockstep/topology/use.h"

namespace lockstep::results {

/// A number that every rank has measured of itself (topology::RankUse), one entry per rank in the record. A
/// table or a CSV file shows the largest.
struct PerRank {
  int64_t topology::RankUse::*of;
  /// Ranks that have 0 are left out: they have no such thing.
  bool only_positive = false;

  operator FieldRule() const { return {}; }
};

/// Resources that a run used beside time.
struct Resources {
  /// Highest resident memory of each rank.
  std::vector<int64_t> peak_memory_bytes;
  /// Pages that the kernel mapped for each rank's process while the row ran.
  std::vector<int64_t> page_faults;
  /// Highest memory that each rank held on its device; empty on a CPU.
  std::vector<int64_t> peak_device_memory_bytes;
  /// Processor seconds of all ranks per second, and per core that they had.
  std::optional<double> processor_utilisation;
  /// The part of processor_utilisation that the communicators' own threads used.
  std::optional<double> communication_threads;
  /// Processor time that others used on the cores of the ranks' hosts, per second and core.
  std::optional<double> other_load;
  /// Mean over the ranks' cores and the samples taken while it ran.
  std::optional<double> mean_frequency_mhz;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    using topology::RankUse;
    fields("peak_memory_bytes", self.peak_memory_bytes, PerRank{&RankUse::peak_memory_bytes});
    fields("page_faults", self.page_faults, PerRank{&RankUse::page_faults});
    fields("peak_device_memory_bytes", self.peak_device_memory_bytes,
           PerRank{&RankUse::peak_device_memory_bytes, true});
    LOCKSTEP_FIELDS(kOptional, processor_utilisation, communication_threads, other_load, mean_frequency_mhz);
  }
};

struct Run;
struct Warning;

/// The resources of a row, from the reports of its ranks, which had ranks * threads_per_rank cores.
Resources resources_of(const std::vector<topology::RankUse>& use, int threads_per_rank);

/// Events on the hosts while a row ran that make it less trustworthy: other load, time taken by the
/// hypervisor, swapping, a clock frequency that fell.
std::vector<Warning> resource_warnings(const std::vector<topology::RankUse>& use);

/// Faults of the run's own step times: a trend, a level shift, many outliers, warm-up that was not over.
/// Empty for a run without samples.
std::vector<Warning> series_warnings(const Run& run);

/// A warning if ranks that train alone, with equal work, differ in their median steps. Empty for a run whose
/// ranks wait for each other.
std::vector<Warning> rank_warnings(const Run& run);

/// A warning if the steps of the breakdown's run (seconds each) and the run's own differ by more than noise:
/// the interval of the ratio of their means excludes 1, and the ratio is 5 % off or more; without intervals,
/// 20 %. The shares of waiting and transfer then belong to another step than the throughput.
std::vector<Warning> breakdown_warnings(const Run& run, const std::vector<double>& breakdown_step_s);

}  // namespace lockstep::results
