#pragma once

#include <string>
#include <vector>

#include "lockstep/launch/progress.h"
#include "lockstep/measure/phases.h"
#include "lockstep/train/rows/rank_group.h"
#include "lockstep/train/rows/row_result.h"

namespace lockstep::train {

/// How LibTorch is set to compute on GPUs now, as far as it changes speed or values: "fp32 matrix products in
/// ieee, convolutions in tf32, cuDNN autotuned". For a row on a CPU empty.
std::string device_settings(const RowPlan& row);

/// Steps of break_down_row.
PacingOptions breakdown_pacing(const RowPlan& row);

/// Steps of a baseline that is measured again: as long as the row at least, since a shorter one meets waves
/// of a machine that the row outlasts, and a quarter of its longest time at most.
PacingOptions again_pacing(const RowPlan& row);

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

/// Builds the row's model, input and strategy on this rank, trains, and gathers the reports of all ranks on
/// the row's rank 0; elsewhere `ranks` of the result is empty. Collective over `ranks`, the ranks of this row
/// (null communicators if it has one).
RowResult run_row(const RowPlan& row, const RankGroup& ranks, launch::Progress& progress);

}  // namespace lockstep::train
