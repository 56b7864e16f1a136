#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/measure/phases.h"
#include "lockstep/models/model.h"
#include "lockstep/train/step/step_clock.h"
#include "lockstep/train/step/step_loop.h"

namespace lockstep::train {

/// The ends of a step's phases, per micro-batch.
struct StepInstants {
  struct MicroBatch {
    Instant input, forward, backward;
  };
  std::vector<MicroBatch> micro_batches;
  std::vector<ActivityLog::Entry> activities;
  Instant combined, applied, end;

  /// The stamps in seconds, once the device has reached the end. `begin_s`, `end_s`: beginning and end of the
  /// step.
  measure::StepStamps stamps(double begin_s, double end_s, const StepClock& clock) const;
};

/// The results of a step, in memory of its device; on a GPU not computed before the GPU reaches them.
struct StepOutcome {
  /// Mean loss over this rank's images: an fp32 scalar.
  at::Tensor loss;
  /// Number of images whose largest logit is their label's: an int64 scalar; undefined if hits are not
  /// counted.
  at::Tensor hits;
};

/// Carries out the training steps of a rank, one after the other. Used by the training thread.
class TrainingStep {
 public:
  /// The arguments outlive this. Phases are stamped on `clock` if the trainee asks for it.
  TrainingStep(const Trainee& trainee, const StepLoopOptions& options, const StepClock& clock)
      : trainee_(trainee), options_(options), clock_(clock) {}

  /// `step`: steps trained before. Never waits for a GPU. Collective if the strategy is.
  StepOutcome run(int64_t step, StepInstants& at) const;

  /// Records a step, which every later run replays with the next batch. Recording trains nothing and loses no
  /// batch. This object must not move afterwards. `step` as above. Throws Error if the step cannot be
  /// recorded. Collective like run.
  void record(int64_t step);

 private:
  class Recorded;

  /// Steps trained before, and a tensor with that number if the device has to read it (kernels::Context).
  struct StepNumber {
    int64_t step = 0;
    const at::Tensor* on_device = nullptr;
  };

  bool counts_hits() const { return options_.hooks.counts_hits; }
  void stamp(Instant& at) const {
    if (trainee_.stamp_phases) at = clock_.now();
  }
  StepOutcome compute(const inputs::Batch& first, const StepNumber& number, StepInstants& at) const;
  /// `index`: the micro-batch's number in the step.
  StepOutcome compute_micro_batch(const inputs::Batch& batch, const StepNumber& number, int index,
                                  StepInstants::MicroBatch& at) const;
  /// The same for a network that has whole steps.
  StepOutcome compute_whole(models::WholeStep& whole, const inputs::Batch& batch, const StepNumber& number,
                            int index, StepInstants::MicroBatch& at) const;
  const inputs::Batch& next_batch(StepInstants::MicroBatch& at) const;

  const Trainee& trainee_;
  const StepLoopOptions& options_;
  const StepClock& clock_;
  std::shared_ptr<Recorded> recorded_;
};

}  // namespace lockstep::train
