#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/inputs/input.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/kernels/layer_clock.h"
#include "lockstep/launch/progress.h"
#include "lockstep/measure/phases.h"
#include "lockstep/models/model.h"
#include "lockstep/replica/accelerator.h"
#include "lockstep/replica/loss_scale.h"
#include "lockstep/replica/precision.h"
#include "lockstep/replica/weight_copies.h"
#include "lockstep/strategies/strategy.h"
#include "lockstep/train/step/pacing.h"
#include "lockstep/train/step/traced_communicator.h"

namespace lockstep::train {

/// What a training does beside a step, where a measurement does nothing. Every function may be empty.
struct StepHooks {
  /// Called with the number of steps that were trained before, those of earlier loops included.
  std::function<void(int64_t steps)> before_step;
  /// Called with this rank's loss in the step, and of its images those whose largest logit is that of their
  /// label, where these are counted; on a GPU some steps later, but in order and before the loop ends.
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
  /// Steps that were trained before these; dropout depends on it.
  int64_t first_step = 0;
  StepHooks hooks = {};
  /// After so many steps, which are not timed, a step is recorded and from then on carried out again and
  /// again; empty: never. Of a trainee with an accelerator that does the same in every step: no before_step,
  /// one micro-batch, no phases stamped.
  std::optional<int> record_after = {};
  /// false: this rank goes its own way; it goes on after its steps until every rank has finished its own, so
  /// that all ranks load the machine for as long as anybody is measured.
  bool coupled = true;
  /// Called with the number of steps so far, every so many timed steps and after the last one, while the
  /// clock stands. The step that follows is trained but not timed: a look at all parameters leaves nothing in
  /// caches, and a strategy that fetches them for it does not fetch again. 0: never. Of coupled ranks only.
  int check_every = 0;
  std::function<void(int64_t steps)> check;
};

/// What one rank measured.
struct StepLoopResult {
  /// Seconds from the end of a step to the end of the next; the first warm-up step begins where the loop
  /// begins.
  std::vector<double> warmup_s;
  /// As many as asked for; an uncoupled rank may have more.
  std::vector<double> step_s;
  /// How warm-up and number of steps were chosen; on rank 0.
  std::string warmup_choice;
  std::string stopped;
  double loss_first = 0;
  double loss_last = 0;
  /// How often `check` was called.
  int checks = 0;
  /// One per measured step when the trainee has a tracer, else empty.
  std::vector<measure::StepStamps> stamps;
};

/// What a rank trains with; all owned by the caller.
struct Trainee {
  models::Model& model;
  inputs::Input& input;
  strategies::Strategy& strategy;
  /// The ranks that take part; null for one rank alone.
  comm::Communicator* communicator = nullptr;
  /// Stamps the phases of every measured step; `tracer` is then what the strategy communicates through, if it
  /// does. Not for a run whose throughput counts.
  bool stamp_phases = false;
  TracedCommunicator* tracer = nullptr;
  /// Stamps the layers of every step. Not for a run whose throughput counts.
  kernels::LayerClock* layers = nullptr;
  /// Null: the CPU.
  replica::Accelerator* accelerator = nullptr;
  /// What the strategy's optimizer undoes; null: the loss is as it is.
  const replica::LossScale* loss_scale = nullptr;
  /// What blocks compute with instead of the parameters; null: the parameters.
  replica::WeightCopies* weight_copies = nullptr;
};

/// Trains as many steps as the pacing says and stamps the end of each. Collective over the communicator, as
/// is every step of a coupled strategy: all ranks begin together, after a barrier.
///
/// Where the number of steps depends on their times, the ranks look at them in pauses for which the clock
/// stands still: no step pays for a look, and after it all begin together again. Uncoupled ranks each decide
/// for themselves, and go on until the last has what it wants.
///
/// Throws Error when a loss is not finite, naming step and rank. Completed steps, warm-up included, are
/// reported to `progress`.
StepLoopResult run_steps(const Trainee& trainee, const StepLoopOptions& options, launch::Progress& progress);

}  // namespace lockstep::train
