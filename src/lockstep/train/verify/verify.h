#pragma once

#include <string>
#include <vector>

#include "lockstep/launch/progress.h"
#include "lockstep/train/rows/rank_group.h"
#include "lockstep/train/rows/row_trainee.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// A promise of a strategy, and whether it was kept.
struct Check {
  enum class Outcome { kRight, kWrong, kNotApplicable };

  /// "replicas equal", "joint batch", "ranks in turn", "run to run"; "applied once", "sum of updates",
  /// "staleness", "loss falls".
  std::string name;
  Outcome outcome = Outcome::kRight;
  /// How it was checked, or why it does not apply.
  std::string detail;
};

/// "right", "WRONG", "n/a".
const char* outcome_text(Check::Outcome outcome);

/// Trains `steps` steps of a row and checks the promises of its strategy:
/// - replicas equal: after every step all ranks have the same parameters and, where each has them, combined
///   gradients, bit for bit;
/// - joint batch: they agree with one rank that trains on the batches of all ranks at once.
///   Networks with batch norm have none on several ranks without --sync-batch-norm; with it, and with
///   gradients in a low rank, two steps are compared, and with batch norm the 2-norm of all differences,
///   which may be 5 % of the move's: rounding turns over ReLUs of normalized values. Only the order of
///   summation differs: a sum of n terms in another order differs by about sqrt(n) rounding errors of its
///   size (Higham 2002, section 4.2), so each tensor may differ by sqrt(n) * epsilon * steps of its largest
///   move, n the terms of one of its gradients, and by 100 times that on a GPU, where cuDNN may transform one
///   of the batches and not the other. The updates round the values too: epsilon * steps of the largest one,
///   which clipped gradients may not move by much more. A narrower type on the wire rounds each of the sums
///   of up to N parts in every step; a sum of k parts is sqrt(k N) / N of the mean, as gradients of different
///   samples go, so N / 2 roundings come together per step, and sqrt(N / 2 * steps) of them are allowed for.
///   Where parameters are averaged (bsp, avg) these are rounded too. A rounding may also turn a ReLU or a max
///   pool over, whose gradient then jumps; that happens by chance, so only a difference beyond the tolerance
///   with two seeds is wrong;
/// - ranks in turn, where ranks take steps alone (Traits::steps_alone): one rank trains the replica of each,
///   one after the other, and combines them in double precision; after two exchanges and a step they differ
///   by rounding only, as above with n the number of ranks. Holds with batch norm too;
/// - run to run: training again gives the same bits.
/// A strategy that applies gradients as they arrive is checked for "applied once", "sum of updates",
/// "staleness" and "loss falls" instead. A value that is not a number, or infinite, is infinitely wrong.
/// `start`: for the trainings of the ranks; the joint batch is trained as the row says. Tests break a
/// strategy with it on purpose. Collective over `ranks`. Returns the checks on its rank 0, nothing elsewhere.
std::vector<Check> verify_row(const RowPlan& row, int steps, const RankGroup& ranks,
                              launch::Progress& progress, const TraineeStart& start = {});

}  // namespace lockstep::train
