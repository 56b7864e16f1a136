#include "lockstep/train/step_loop.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

class StepLoop {
 public:
  StepLoop(const Trainee& trainee, const StepLoopOptions& options, launch::Progress& progress)
      : trainee_(trainee), options_(options), progress_(progress) {
    // No step is to pay for a growing vector; uncoupled ranks go on beyond their own last step.
    durations_s_.reserve(options.pacing.fixed() ? 4 * steps_to_first_look(options.pacing) : size_t{1} << 14);
  }

  StepLoopResult run() {
    begin_together();
    if (options_.pacing.fixed()) {
      run_fixed();
    } else {
      run_until_enough();
    }
    if (!options_.coupled && trainee_.communicator != nullptr) {
      const comm::WorkPtr all_finished = trainee_.communicator->barrier();
      while (!all_finished->test()) timed_step();
    }
    trainee_.strategy.finish();
    if (options_.check_every > 0 && !just_checked_) check();
    const auto first_measured = durations_s_.begin() + static_cast<std::ptrdiff_t>(warmup_steps_);
    result_.warmup_s.assign(durations_s_.begin(), first_measured);
    result_.step_s.assign(first_measured, durations_s_.end());
    if (!result_.stamps.empty()) {
      result_.stamps.erase(result_.stamps.begin(),
                           result_.stamps.begin() + static_cast<std::ptrdiff_t>(warmup_steps_));
    }
    return std::move(result_);
  }

 private:
  /// The common start, and the start of the next step.
  void begin_together() {
    if (trainee_.communicator != nullptr) trainee_.communicator->barrier()->wait();
    end_s_ = now_s();
  }

  void run_fixed() {
    warmup_steps_ = static_cast<size_t>(*options_.pacing.warmup_steps);
    for (size_t i = 0; i < warmup_steps_; ++i) checked_step();
    begin_together();
    for (int i = 0; i < *options_.pacing.steps; ++i) checked_step();
    result_.warmup_choice = fmt::format("{} steps, as told", warmup_steps_);
    result_.stopped = fmt::format("the {} steps asked for were run", *options_.pacing.steps);
  }

  void run_until_enough() {
    comm::Communicator* deciders = options_.coupled ? trainee_.communicator : nullptr;
    const double begin_s = end_s_;
    size_t further = steps_to_first_look(options_.pacing);
    while (true) {
      for (size_t i = 0; i < further; ++i) checked_step();
      PacingDecision decision = look(durations_s_, now_s() - begin_s, options_.pacing, deciders);
      warmup_steps_ = decision.warmup_steps;
      if (decision.stop) {
        result_.warmup_choice = std::move(decision.warmup_choice);
        result_.stopped = std::move(decision.stopped);
        end_s_ = now_s();
        return;
      }
      further = decision.further_steps;
      if (deciders != nullptr) {
        begin_together();
      } else {
        end_s_ = now_s();
      }
    }
  }

  void checked_step() {
    if (just_checked_) {
      measure::StepStamps not_kept;
      count(train_one_step(not_kept));
      begin_together();
      just_checked_ = false;
    }
    timed_step();
    if (options_.check_every == 0) return;
    if (durations_s_.size() % static_cast<size_t>(options_.check_every) == 0) check();
  }

  void check() {
    options_.check(step_);
    just_checked_ = true;
    ++result_.checks;
  }

  void count(double loss) {
    if (step_ == 0) result_.loss_first = loss;
    result_.loss_last = loss;
    ++step_;
    progress_.completed(options_.first_step + step_);
  }

  void timed_step() {
    measure::StepStamps stamps;
    stamps.begin_s = end_s_;
    const double loss = train_one_step(stamps);
    const double end_s = now_s();
    durations_s_.push_back(end_s - end_s_);
    end_s_ = end_s;
    count(loss);
    if (trainee_.stamp_phases) keep(std::move(stamps), end_s);
  }

  void keep(measure::StepStamps stamps, double end_s) {
    stamps.end_s = end_s;
    if (trainee_.tracer != nullptr) stamps.collectives = trainee_.tracer->take_stamps();
    result_.stamps.push_back(std::move(stamps));
  }

  /// Stamps the end of a phase when this run is for that.
  void stamp(double& at_s) const {
    if (trainee_.stamp_phases) at_s = now_s();
  }

  double train_one_step(measure::StepStamps& stamps) {
    const StepHooks& hooks = options_.hooks;
    if (hooks.before_step) hooks.before_step(options_.first_step + step_);
    at::Tensor loss = train_micro_batch(0, stamps);
    for (int i = 1; i < options_.accumulate; ++i) {
      const double begin_s = stamps.last_micro_batch_s();
      stamps.earlier_input_s += stamps.input_s - begin_s;
      stamps.earlier_forward_s += stamps.forward_s - stamps.input_s;
      stamps.earlier_backward_s += stamps.backward_s - stamps.forward_s;
      loss = loss.add(train_micro_batch(i, stamps));
    }
    trainee_.strategy.combine();
    stamp(stamps.combined_s);
    trainee_.strategy.apply();
    stamp(stamps.applied_s);
    const double value = loss.item<float>();
    if (!std::isfinite(value)) refuse_loss(value);
    if (hooks.after_step) hooks.after_step(value);
    return value;
  }

  /// Returns its part of the step's loss. `index`: in the step.
  at::Tensor train_micro_batch(int index, measure::StepStamps& stamps) {
    const inputs::Batch& batch = trainee_.input.next();
    stamp(stamps.input_s);
    if (index == 0) trainee_.strategy.begin_step();
    at::Tensor loss, logits;
    if (trainee_.layers != nullptr) trainee_.layers->begin_pass();
    {
      const replica::AutocastScope autocast(options_.precision);
      const kernels::Context context{.training = true,
                                     .kernels = options_.kernels,
                                     .seed = options_.seed,
                                     .step = (options_.first_step + step_) * options_.accumulate + index,
                                     .first_sample = batch.first_sample,
                                     .cost = nullptr,
                                     .layers = trainee_.layers};
      const models::Output output = trainee_.model.forward(batch.images, context);
      if (options_.hooks.after_backward) logits = output.logits.detach();
      loss = models::cross_entropy(output, batch.labels);
    }
    stamp(stamps.forward_s);
    if (options_.accumulate > 1) loss = loss.div(options_.accumulate);
    trainee_.strategy.before_backward(index == options_.accumulate - 1);
    loss.backward();
    if (trainee_.layers != nullptr) trainee_.layers->end_pass();
    stamp(stamps.backward_s);
    if (options_.hooks.after_backward) options_.hooks.after_backward(logits, batch.labels);
    return loss.detach();
  }

  [[noreturn]] void refuse_loss(double value) const {
    const int rank = trainee_.communicator == nullptr ? 0 : trainee_.communicator->rank();
    throw Error(
        fmt::format("the loss of rank {} is {} in step {}", rank, value, options_.first_step + step_ + 1),
        "Try a smaller --lr, or --precision fp32.");
  }

  const Trainee& trainee_;
  const StepLoopOptions& options_;
  launch::Progress& progress_;
  StepLoopResult result_;
  /// Of all steps so far, warm-up included.
  std::vector<double> durations_s_;
  size_t warmup_steps_ = 0;
  /// When the last step ended, or the next one begins.
  double end_s_ = 0;
  int64_t step_ = 0;
  /// The next step is not to be timed.
  bool just_checked_ = false;
};

}  // namespace

StepLoopResult run_steps(const Trainee& trainee, const StepLoopOptions& options, launch::Progress& progress) {
  return StepLoop(trainee, options, progress).run();
}

}  // namespace lockstep::train
