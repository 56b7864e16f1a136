#pragma once

#include <filesystem>

#include "lockstep/launch/progress.h"
#include "lockstep/train/rows/rank_group.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// Trains `steps` steps of a row and writes to `folder`, which exists, what another program needs to do the
/// same and compare: `initial.safetensors` and `final.safetensors` with the parameters by name (rank 0), and
/// `batches.N.safetensors` of every rank N with `images.I` and `labels.I` of every batch I, or the tensors by
/// the names that the network's file gives them. A step takes as many batches as the row accumulates.
/// Collective over `group`. Throws Error if a file cannot be written.
void export_training(const RowPlan& row, int steps, const RankGroup& group,
                     const std::filesystem::path& folder, launch::Progress& progress);

}  // namespace lockstep::train
