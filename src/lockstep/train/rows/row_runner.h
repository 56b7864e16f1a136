#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/progress.h"
#include "lockstep/measure/phases.h"
#include "lockstep/replica/memory_use.h"
#include "lockstep/results/record/layer_times.h"
#include "lockstep/topology/gpu_use.h"
#include "lockstep/topology/use.h"
#include "lockstep/train/rows/rank_group.h"
#include "lockstep/train/rows/sweep.h"
#include "lockstep/train/step/step_loop.h"

namespace lockstep::train {

/// Measurements of all ranks of a row, on its rank 0.
struct RowSamples {
  /// [rank][step] in seconds; uncoupled ranks may have more steps than others.
  std::vector<std::vector<double>> warmup_s;
  std::vector<std::vector<double>> step_s;
  /// Begin of the first measured step of each rank, in seconds after the common start; for uncoupled ranks
  /// only.
  std::vector<double> start_s;
  std::string warmup_choice;
  std::string stopped;
  /// Why the measured steps are not settled; empty if they are.
  std::string unsettled;
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
  /// Quantities that the strategy measured of itself, combined over all ranks (combine_measured).
  std::vector<strategies::Measured> measured;
  /// [rank][queue], the same queues on every rank; none where the input has none.
  std::vector<std::vector<feed::QueueUse>> input_queues;
};

/// How LibTorch is set to compute on GPUs now, as far as it changes speed or values: "fp32 matrix products in
/// ieee, convolutions in tf32, cuDNN autotuned". For a row on a CPU empty.
std::string device_settings(const RowPlan& row);

/// Steps of break_down_row and of time_layers.
PacingOptions breakdown_pacing(const RowPlan& row);
PacingOptions layers_pacing();

/// Trains a few steps with the row's settings in a separate run, with every phase and collective stamped.
/// Returns the stamps of all ranks on rank 0, for measure::break_down, and nothing on the others. Collective
/// over `ranks`.
std::vector<measure::RankStamps> break_down_row(const RowPlan& row, const RankGroup& ranks,
                                                launch::Progress& progress);

/// As break_down_row in yet another run, and on rank 0 with the kernels of its device, or the operations of
/// the CPU. Recording them makes steps slower, so the result is for a trace, not for measure::break_down.
/// Collective over `ranks`.
std::vector<measure::RankStamps> trace_kernels(const RowPlan& row, const RankGroup& ranks,
                                               launch::Progress& progress);

/// Trains a few steps more with the row's settings, in which every layer is stamped: the median of each
/// layer's times on the row's rank 0, and nothing on the others. Collective over `group`.
std::vector<results::LayerTimes> time_layers(const RowPlan& row, const RankGroup& group,
                                             launch::Progress& progress);

/// Builds the row's model, input and strategy on this rank, trains, and gathers the samples. Returns them on
/// the row's rank 0 only. Collective over `ranks`, the ranks of this row (null communicators if it has one).
std::optional<RowSamples> run_row(const RowPlan& row, const RankGroup& ranks, launch::Progress& progress);

}  // namespace lockstep::train
