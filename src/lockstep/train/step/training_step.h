#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/measure/phases.h"
#include "lockstep/train/step/step_clock.h"
#include "lockstep/train/step/step_loop.h"

namespace lockstep::train {

/// When the phases of a step ended, of each of its micro-batches.
struct StepInstants {
  struct MicroBatch {
    Instant input, forward, backward;
  };
  std::vector<MicroBatch> micro_batches;
  Instant combined, applied, end;

  /// Once the device has come to the end. `begin_s`: of the step.
  measure::StepStamps stamps(double begin_s, const StepClock& clock) const;
};

/// What a step found out, on its device and not computed before the device comes to it.
struct StepOutcome {
  /// Of this rank, the mean over its images: fp32, of no dimensions.
  at::Tensor loss;
  /// The images whose largest logit is that of their label, int64; undefined where nobody asked.
  at::Tensor hits;
};

/// One training step of a rank after the other. Used by the training thread.
class TrainingStep {
 public:
  /// All of it outlives this. Phases are stamped on `clock` where the trainee is for that.
  TrainingStep(const Trainee& trainee, const StepLoopOptions& options, const StepClock& clock)
      : trainee_(trainee), options_(options), clock_(clock) {}

  /// `step`: how many were trained before. Never waits for a GPU. Collective as the strategy is.
  StepOutcome run(int64_t step, StepInstants& at) const;

  /// From now on every run carries out again what is recorded here, on the batches that come; nothing is
  /// trained by recording, and no batch is lost. This must stay where it is; `step` as above. Throws Error
  /// where the step is not one that can be recorded. Collective as run.
  void record(int64_t step);

 private:
  class Recorded;

  /// How many steps were trained before, and where a device finds that, if it is to look (kernels::Context).
  struct StepNumber {
    int64_t step = 0;
    const at::Tensor* on_device = nullptr;
  };

  bool counts_hits() const { return options_.hooks.counts_hits; }
  void stamp(Instant& at) const {
    if (trainee_.stamp_phases) at = clock_.now();
  }
  StepOutcome compute(const inputs::Batch& first, const StepNumber& number, StepInstants& at) const;
  /// `index`: in the step.
  StepOutcome compute_micro_batch(const inputs::Batch& batch, const StepNumber& number, int index,
                                  StepInstants::MicroBatch& at) const;
  const inputs::Batch& next_batch(StepInstants::MicroBatch& at) const;

  const Trainee& trainee_;
  const StepLoopOptions& options_;
  const StepClock& clock_;
  std::shared_ptr<Recorded> recorded_;
};

}  // namespace lockstep::train
