#pragma once

#include <vector>

#include "lockstep/kernels/layer.h"
#include "lockstep/launch/progress.h"
#include "lockstep/results/record/layer_times.h"
#include "lockstep/train/rows/rank_group.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// Trains a few steps more with the row's settings, in which every layer is stamped: the median of each
/// layer's times on the row's rank 0, and nothing on the others. Collective over `group`.
std::vector<results::LayerTimes> time_layers(const RowPlan& row, const RankGroup& group,
                                             launch::Progress& progress);

}  // namespace lockstep::train
