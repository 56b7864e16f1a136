#pragma once

#include <vector>

#include "lockstep/launch/progress.h"
#include "lockstep/train/rows/rank_group.h"
#include "lockstep/train/rows/sweep.h"
#include "lockstep/train/verify/verify.h"

namespace lockstep::train {

/// verify_row of a strategy that applies each gradient when it arrives. The ranks train, each at its own
/// pace, on one batch each:
/// - applied once: over all ranks as many gradients were applied as were sent, and each rank's of each bucket
///   equally often;
/// - staleness: of no gradient more than the updates that all other ranks make in so many steps. Nothing else
///   bounds it: a rank waits for no other one, so a slow one may be overtaken by all their steps;
/// - loss falls: the mean over the ranks, from the first step to the last.
/// What holds of coupled strategies does not apply. Collective over `group`.
std::vector<Check> verify_on_arrival(const RowPlan& row, int steps, const RankGroup& ranks,
                                     launch::Progress& progress);

}  // namespace lockstep::train
