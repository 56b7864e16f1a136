#include "lockstep/train/step/step_loop.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/train/step/issued_steps.h"
#include "lockstep/train/step/training_step.h"

namespace lockstep::train {
namespace {

class StepLoop {
 public:
  StepLoop(const Trainee& trainee, const StepLoopOptions& options, launch::Progress& progress)
      : trainee_(trainee),
        options_(options),
        progress_(progress),
        clock_(trainee.accelerator),
        issued_(trainee.accelerator, clock_),
        training_step_(trainee, options, clock_) {
    // No step is to pay for a growing vector; uncoupled ranks go on beyond their own last step.
    durations_s_.reserve(options.pacing.fixed() ? 4 * steps_to_first_look(options.pacing) : size_t{1} << 14);
  }

  StepLoopResult run() {
    begin_together();
    if (options_.record_after) record();
    if (options_.pacing.fixed()) {
      run_fixed();
    } else {
      run_until_enough();
    }
    if (!options_.coupled && trainee_.communicator != nullptr) {
      const comm::WorkPtr all_finished = trainee_.communicator->barrier();
      while (!all_finished->test()) timed_step();
    }
    settle();
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
    settle();
    if (trainee_.communicator != nullptr) trainee_.communicator->barrier()->wait();
    begin_here();
  }

  /// Likewise of this rank alone.
  void begin_here() {
    settle();
    end_s_ = clock_.synchronize();
  }

  void record() {
    for (int i = 0; i < *options_.record_after; ++i) issue(/*timed=*/false);
    settle();
    training_step_.record(options_.first_step + step_);
    begin_together();
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
      settle();
      PacingDecision decision = look(durations_s_, now_s() - begin_s, options_.pacing, deciders);
      warmup_steps_ = decision.warmup_steps;
      if (decision.stop) {
        result_.warmup_choice = std::move(decision.warmup_choice);
        result_.stopped = std::move(decision.stopped);
        begin_here();
        return;
      }
      further = decision.further_steps;
      if (deciders != nullptr) {
        begin_together();
      } else {
        begin_here();
      }
    }
  }

  void checked_step() {
    if (just_checked_) {
      issue(/*timed=*/false);
      begin_together();
      just_checked_ = false;
    }
    timed_step();
    if (options_.check_every == 0) return;
    if (++steps_since_check_ % options_.check_every == 0) check();
  }

  void check() {
    settle();
    options_.check(step_);
    just_checked_ = true;
    ++result_.checks;
  }

  void timed_step() { issue(/*timed=*/true); }

  /// Waits for what the device was given, and takes note of it.
  void settle() {
    while (issued_.count() > 0) finish_oldest();
  }

  /// The device is never more steps behind than it has places for their losses.
  void issue(bool timed) {
    IssuedStep step{.step = options_.first_step + step_, .timed = timed};
    const StepOutcome outcome = training_step_.run(step.step, step.at);
    if (trainee_.tracer != nullptr) {
      step.collectives = trainee_.tracer->issued() - collectives_ahead_;
      collectives_ahead_ += step.collectives;
    }
    issued_.add(std::move(step), outcome);
    ++step_;
    while (issued_.count() > issued_.most_ahead()) finish_oldest();
  }

  void finish_oldest() {
    const IssuedStep done = issued_.finish_oldest();
    if (!std::isfinite(done.loss)) refuse_loss(done);
    if (options_.hooks.after_step) options_.hooks.after_step(done.loss, done.hits);
    if (done.step == options_.first_step) result_.loss_first = done.loss;
    result_.loss_last = done.loss;
    const double end_s = clock_.seconds(done.at.end);
    std::vector<CollectiveStamp> collectives;
    if (trainee_.tracer != nullptr) collectives = trainee_.tracer->take_stamps(done.collectives, clock_);
    collectives_ahead_ -= done.collectives;
    if (done.timed) {
      durations_s_.push_back(end_s - end_s_);
      if (trainee_.stamp_phases) {
        result_.stamps.push_back(done.at.stamps(end_s_, clock_));
        result_.stamps.back().collectives = std::move(collectives);
      }
    }
    end_s_ = end_s;
    clock_.set_by(done.at.end);
    progress_.completed(done.step + 1);
  }

  [[noreturn]] void refuse_loss(const IssuedStep& step) const {
    const int rank = trainee_.communicator == nullptr ? 0 : trainee_.communicator->rank();
    throw Error(fmt::format("the loss of rank {} is {} in step {}", rank, step.loss, step.step + 1),
                "Try a smaller --lr, or --precision fp32.");
  }

  const Trainee& trainee_;
  const StepLoopOptions& options_;
  launch::Progress& progress_;
  StepClock clock_;
  IssuedSteps issued_;
  TrainingStep training_step_;
  StepLoopResult result_;
  /// Of all timed steps so far, warm-up included.
  std::vector<double> durations_s_;
  size_t warmup_steps_ = 0;
  /// When the last step ended, or the next one begins.
  double end_s_ = 0;
  /// Issued so far.
  int64_t step_ = 0;
  /// Of the steps that are issued and not finished.
  size_t collectives_ahead_ = 0;
  int64_t steps_since_check_ = 0;
  /// The next step is not to be timed.
  bool just_checked_ = false;
};

}  // namespace

StepLoopResult run_steps(const Trainee& trainee, const StepLoopOptions& options, launch::Progress& progress) {
  return StepLoop(trainee, options, progress).run();
}

}  // namespace lockstep::train
