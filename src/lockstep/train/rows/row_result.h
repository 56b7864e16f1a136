#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/measure/phases.h"
#include "lockstep/replica/memory_use.h"
#include "lockstep/results/record/run_record.h"
#include "lockstep/topology/gpu_use.h"
#include "lockstep/topology/use.h"
#include "lockstep/train/rows/sweep.h"
#include "lockstep/train/step/step_loop.h"

namespace lockstep::train {

/// The measurements of one rank of a row.
struct RankReport : TrainedSteps {
  topology::RankUse use;
  /// Its GPUs while it measured; empty on a CPU.
  std::vector<topology::GpuUse> gpus;
  replica::MemoryUse memory;
  /// The same queues on every rank; empty where the input has none, and for further devices of a rank.
  std::vector<feed::QueueUse> queues;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    TrainedSteps::describe(fields, self);
    LOCKSTEP_FIELDS(kOptional, use, gpus, memory, queues)
  }
};

/// The measurements of a row, on its rank 0.
struct RowResult {
  /// As it was measured, with the bucket size that was found for it.
  RowPlan row;
  /// By rank; a rank that has the devices of all ranks reports for each of them.
  std::vector<RankReport> ranks;
  measure::Ending ending;
  /// Estimated before the run.
  replica::MemoryUse predicted_memory;
  /// Comparisons of the replicas, and the reason where there were none.
  int replica_checks = 0;
  std::string why_not_compared;
  /// The function of this name; empty on a CPU.
  std::string device_settings;
  /// Quantities that the strategy measured of itself, combined over all ranks (combine_measured).
  std::vector<strategies::Measured> measured;
  /// From the breakdown run; empty without one.
  std::vector<measure::RankStamps> stamps;
  /// From the run that a trace shows in place of the breakdown, with the kernels; empty without one.
  std::vector<measure::RankStamps> kernels;
  std::optional<results::BucketTuning> tuning;
};

/// The record of the row, complete but for its relations to other rows (results::assign_baselines,
/// results::assign_factors). Hosts, backend and threads per rank are those of `result.row`.
results::Run run_of(const RowResult& result);

/// The record of a row that has not ended, or ended before all of it was measured, from the step times that
/// its ranks have so far: samples, percentiles and images/s, without intervals. Empty before the first step.
///
/// `step_s[rank][step]`: seconds, warm-up included, of the first ranks of the row (launch::StepBoard::read).
/// Where these are not all ranks, the samples have fewer ranks than the row, and an uncoupled row has no
/// images/s. `reason`: the cause of its end.
std::optional<results::Run> unfinished_run(const RowPlan& row, std::vector<std::vector<double>> step_s,
                                           const std::string& reason);

}  // namespace lockstep::train
