#pragma once

#include <vector>

#include "lockstep/train/verify/verify.h"

namespace lockstep::train {

/// Checks a strategy that applies each gradient when it arrives. The ranks train on one batch each, at their
/// own pace:
/// - applied once: over all ranks as many gradients were applied as were sent, those of each rank and bucket
///   equally often, by the owners' own count;
/// - sum of updates: the parameters moved by all that was sent; this believes no count;
/// - staleness: no gradient is older than the updates that all other ranks make in so many steps. Nothing
///   else bounds it: a rank waits for no other one, so all their steps may overtake a slow one;
/// - loss falls: the mean over the ranks, from the first step to the last.
/// The checks of coupled strategies do not apply. Collective over `ranks`.
std::vector<Check> verify_on_arrival(const RowPlan& row, int steps, const RankGroup& ranks,
                                     launch::Progress& progress, const TraineeStart& start);

}  // namespace lockstep::train
