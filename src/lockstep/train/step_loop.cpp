#include "lockstep/train/step_loop.h"

#include <cmath>

#include <fmt/format.h>

#include <ATen/ops/cross_entropy_loss.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

class StepLoop {
 public:
  StepLoop(const Trainee& trainee, const StepLoopOptions& options, launch::Progress& progress)
      : trainee_(trainee), options_(options), progress_(progress) {
    result_.warmup_s.reserve(static_cast<size_t>(options.warmup_steps));
    // Room for an uncoupled rank's extra steps, so that no step pays for a growing vector.
    result_.step_s.reserve(static_cast<size_t>(options.steps) * (options.coupled ? 1 : 4));
  }

  StepLoopResult run() {
    double end_s = now_s();
    for (int i = 0; i < options_.warmup_steps; ++i) end_s = timed_step(end_s, result_.warmup_s);
    if (trainee_.communicator != nullptr) {
      trainee_.communicator->barrier()->wait();
      end_s = now_s();
    }
    for (int i = 0; i < options_.steps; ++i) end_s = timed_step(end_s, result_.step_s);
    if (!options_.coupled && trainee_.communicator != nullptr) {
      const comm::WorkPtr all_finished = trainee_.communicator->barrier();
      while (!all_finished->test()) end_s = timed_step(end_s, result_.step_s);
    }
    return std::move(result_);
  }

 private:
  double timed_step(double previous_end_s, std::vector<double>& durations_s) {
    measure::StepStamps stamps;
    stamps.begin_s = previous_end_s;
    const double loss = train_one_step(stamps);
    const double end_s = now_s();
    durations_s.push_back(end_s - previous_end_s);
    if (step_ == 0) result_.loss_first = loss;
    result_.loss_last = loss;
    progress_.completed(++step_);
    if (trainee_.stamp_phases) keep(std::move(stamps), end_s, &durations_s == &result_.step_s);
    return end_s;
  }

  void keep(measure::StepStamps stamps, double end_s, bool measured) {
    stamps.end_s = end_s;
    if (trainee_.tracer != nullptr) stamps.collectives = trainee_.tracer->take_stamps();
    if (measured) result_.stamps.push_back(std::move(stamps));
  }

  /// Stamps the end of a phase when this run is for that.
  void stamp(double& at_s) const {
    if (trainee_.stamp_phases) at_s = now_s();
  }

  double train_one_step(measure::StepStamps& stamps) {
    const inputs::Batch& batch = trainee_.input.next();
    stamp(stamps.input_s);
    trainee_.optimizer.clear_gradients();
    trainee_.strategy.begin_step();
    at::Tensor loss;
    {
      const replica::AutocastScope autocast(options_.precision);
      const kernels::Context context{.training = true,
                                     .seed = options_.seed,
                                     .step = step_,
                                     .first_sample = batch.first_sample,
                                     .cost = nullptr};
      const at::Tensor logits = trainee_.model.forward(batch.images, context);
      loss = at::cross_entropy_loss(logits, batch.labels);
    }
    stamp(stamps.forward_s);
    trainee_.strategy.before_backward();
    loss.backward();
    stamp(stamps.backward_s);
    trainee_.strategy.combine();
    stamp(stamps.combined_s);
    trainee_.strategy.apply();
    stamp(stamps.applied_s);
    const double value = loss.item<float>();
    if (!std::isfinite(value)) refuse_loss(value);
    return value;
  }

  [[noreturn]] void refuse_loss(double value) const {
    const int rank = trainee_.communicator == nullptr ? 0 : trainee_.communicator->rank();
    throw Error(fmt::format("the loss of rank {} is {} in step {}", rank, value, step_ + 1),
                "Try a smaller --lr, or --precision fp32.");
  }

  const Trainee& trainee_;
  const StepLoopOptions& options_;
  launch::Progress& progress_;
  StepLoopResult result_;
  int64_t step_ = 0;
};

}  // namespace

StepLoopResult run_steps(const Trainee& trainee, const StepLoopOptions& options, launch::Progress& progress) {
  return StepLoop(trainee, options, progress).run();
}

}  // namespace lockstep::train
