#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/measure/phases.h"
#include "lockstep/replica/memory_use.h"
#include "lockstep/topology/gpu_use.h"
#include "lockstep/topology/use.h"
#include "lockstep/train/rows/rank_group.h"
#include "lockstep/train/step/step_loop.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// What all ranks of a row measured, on the row's rank 0.
struct RowSamples {
  /// [rank][step] in seconds; uncoupled ranks may have more steps than others.
  std::vector<std::vector<double>> warmup_s;
  std::vector<std::vector<double>> step_s;
  /// Of uncoupled ranks: when the first measured step of each began, seconds after the common start.
  std::vector<double> start_s;
  std::string warmup_choice;
  std::string stopped;
  /// Mean over ranks.
  double loss_first = 0;
  double loss_last = 0;
  /// How often the replicas were compared, and why they were not.
  int replica_checks = 0;
  std::string why_not_compared;
  /// How LibTorch was set to compute on GPUs; empty on a CPU.
  std::string device_settings;
  /// [rank]
  std::vector<topology::RankUse> use;
  /// [rank]: of its GPU while it measured; empty on a CPU.
  std::vector<topology::GpuUse> gpus;
  std::vector<replica::MemoryUse> memory;
  /// What the strategy measured of itself, of all ranks together (combine_measured).
  std::vector<strategies::Measured> measured;
  /// [rank][queue], the same queues on every rank; none where the input has none.
  std::vector<std::vector<feed::QueueUse>> input_queues;
};

/// Of a run of its own with the row's settings, in which every phase and collective is stamped: as many steps
/// as show it. Collective over `ranks`; the stamps of all of them are there on rank 0, for
/// measure::break_down.
std::vector<measure::RankStamps> break_down_row(const RowPlan& row, const RankGroup& ranks,
                                                launch::Progress& progress);

/// Of one more run, of a few steps: stamped likewise, and on rank 0 with the kernels that its device carried
/// out, or the CPU's operations. Recording these makes steps slower, so it is for looking at, not for
/// measure::break_down. Collective as above, its result likewise.
std::vector<measure::RankStamps> trace_kernels(const RowPlan& row, const RankGroup& ranks,
                                               launch::Progress& progress);

/// Builds the row's model, input and strategy on this rank, trains, and brings the samples together.
/// Collective over `ranks`, those of this row (of nobody when the row has one). The result is there on its
/// rank 0.
std::optional<RowSamples> run_row(const RowPlan& row, const RankGroup& ranks, launch::Progress& progress);

}  // namespace lockstep::train
