#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/fields.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/store.h"
#include "lockstep/inputs/input.h"
#include "lockstep/kernels/context.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/launch/progress.h"
#include "lockstep/measure/phases.h"
#include "lockstep/models/model.h"
#include "lockstep/replica/accelerator.h"
#include "lockstep/replica/loss_scale.h"
#include "lockstep/replica/precision.h"
#include "lockstep/replica/weight_copies.h"
#include "lockstep/strategies/strategy.h"
#include "lockstep/train/step/pacing.h"
#include "lockstep/train/step/step_clock.h"
#include "lockstep/train/step/traced_communicator.h"

namespace lockstep::train {

/// Functions that a training calls around a step; a measurement has none. Each may be empty.
struct StepHooks {
  /// Called with the number of steps trained before, in earlier loops too.
  std::function<void(int64_t steps)> before_step;
  /// Called with this rank's loss in the step and, if hits are counted, the number of its images whose
  /// largest logit is their label's. On a GPU called some steps later, but in order and before the loop ends.
  std::function<void(double loss, int64_t hits)> after_step;
  bool counts_hits = false;
};

struct StepLoopOptions {
  PacingOptions pacing;
  replica::Precision precision = replica::Precision::kFp32;
  kernels::KernelChoice kernels = kernels::KernelChoice::kAten;
  uint64_t seed = 1;
  /// Micro-batches per step: each is one batch of the input, and gradients are combined once for all.
  int accumulate = 1;
  /// Steps trained before this loop; dropout depends on it.
  int64_t first_step = 0;
  StepHooks hooks = {};
  /// Untimed steps after which a step is recorded and from then on replayed; empty: never. Needs a trainee
  /// with an accelerator that does the same in every step: no before_step, one micro-batch, no phases
  /// stamped.
  std::optional<int> record_after = {};
  /// false: the ranks train independently. A rank goes on after its own steps until all ranks have finished
  /// theirs, so that the machine stays equally loaded while any rank is measured.
  bool coupled = true;
  /// Called once between two steps, after the certain warm-up (certain_warmup()) and after a
  /// recording. Work spaces in which libraries tried out their algorithms are free by then.
  std::function<void()> warmed_up;
  /// Called once after the last step, before the strategy makes the parameters readable.
  std::function<void()> trained;
  /// Whether a step that is trained but not timed follows each pause on a GPU. For measurements; a training
  /// has as many steps as it asked for.
  bool leads_in = false;
  /// Timed steps (in whole periods) between two calls of `check`, which is also called after the last step;
  /// 0: never. The clock stands meanwhile. The step that follows is trained but not timed: reading all
  /// parameters evicts everything else from the caches, and a strategy that fetched them for the check does
  /// not fetch them again. Coupled ranks only.
  int check_every = 0;
  std::function<void(int64_t steps)> check;
};

/// The steps that one rank trained.
struct TrainedSteps {
  /// Seconds from the end of a step to the end of the next; the first warm-up step begins with the loop. With
  /// a pacing by periods the mean of each period's.
  std::vector<double> warmup_s;
  /// Likewise for the measured steps; an uncoupled rank may have more than asked for.
  std::vector<double> step_s;
  double loss_first = 0;
  double loss_last = 0;

  LOCKSTEP_DESCRIBE(kOptional, warmup_s, step_s, loss_first, loss_last)
};

/// The measurements of one rank.
struct StepLoopResult : TrainedSteps {
  /// On rank 0, and on every uncoupled rank.
  measure::Ending ending;
  /// Calls of `check`.
  int checks = 0;
  /// One per measured step when the trainee has a tracer, else empty.
  std::vector<measure::StepStamps> stamps;
};

/// The objects that a rank trains with; all owned by the caller.
struct Trainee {
  models::Model& model;
  inputs::Input& input;
  strategies::Strategy& strategy;
  /// The ranks that take part; null for one rank alone.
  comm::Communicator* communicator = nullptr;
  /// Stamps the phases of every measured step; a strategy that communicates then does so through `tracer`.
  /// Slows the steps, so it is not for a run whose throughput counts.
  bool stamp_phases = false;
  TracedCommunicator* tracer = nullptr;
  /// The listener of strategy and network, if phases are stamped.
  ActivityLog* activities = nullptr;
  /// The GPU; null: the CPU.
  replica::Accelerator* accelerator = nullptr;
  /// The factor on the loss that the strategy's optimizer divides out again; null: none.
  const replica::LossScale* loss_scale = nullptr;
  /// Copies of the parameters that blocks compute with; null: they use the parameters.
  replica::WeightCopies* weight_copies = nullptr;
  /// The ranks of batch norm's statistics; null: each its own.
  const kernels::NormRanks* norm_ranks = nullptr;
  /// The place where uncoupled ranks report that they have finished, and a key that only this loop uses.
  /// Null: they meet in a barrier, which has the communicator's time limit.
  comm::Store* store = nullptr;
  std::string finished_key = {};
};

/// Trains as many steps as the pacing says and stamps the end of each. Collective over the communicator, as
/// is every step of a coupled strategy: all ranks begin together, after a barrier.
///
/// If the number of steps depends on their times, the ranks decide in pauses for which the clock stands, so
/// that no step pays for a decision, and begin together again. Each uncoupled rank decides for itself and
/// goes on until the last rank is done.
///
/// Throws Error when a loss is not finite, naming step and rank. Completed steps, warm-up included, are
/// reported to `progress`.
StepLoopResult run_steps(const Trainee& trainee, const StepLoopOptions& options, launch::Progress& progress);

}  // namespace lockstep::train
