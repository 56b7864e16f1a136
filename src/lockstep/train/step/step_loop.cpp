#include "lockstep/train/step/step_loop.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/train/step/issued_steps.h"
#include "lockstep/train/step/training_step.h"

namespace lockstep::train {
namespace {

// Order of a step's parts on a GPU, where the host only issues work:
//
//   host    issue k     issue k+1   issue k+2 | finish k     issue k+3 | finish k+1 ...
//   GPU          [ step k      ][ step k+1    ][ step k+2 ...
//
// issue() puts a whole step into the GPU's stream, together with marks at the ends of its phases and a copy
// of its loss to the host. finish_oldest() waits for the mark at the end of a step, which is due by then, and
// only then reads loss and times. So no mark, copy or wait stands between two steps in the stream, and the
// GPU always has the next step while it computes. On the CPU a step is over when it was issued, and nothing
// is ahead.
//
// A step lasts from the end of the step before to its own end, so that nothing falls between steps. Whatever
// is not part of training (a look at the times, a comparison of replicas, a recording) happens in a pause:
// settle() first, so that all issued steps have ended and their times are read, then the work, then
// begin_together(), which starts the clock anew after a barrier. The barrier is part of the pause, so waiting
// for the others costs no step.
class StepLoop {
 public:
  StepLoop(const Trainee& trainee, const StepLoopOptions& options, launch::Progress& progress)
      : trainee_(trainee),
        options_(options),
        progress_(progress),
        clock_(trainee.accelerator),
        issued_(trainee.accelerator, clock_),
        training_step_(trainee, options, clock_) {
    // Reserved so that no step pays for a growing vector; uncoupled ranks go on beyond their own last step.
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
      // Keeps the machine loaded until the slowest rank is through: one that stopped early would leave its
      // share of memory bandwidth and power to the others.
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
  /// Starts the next step's clock on all ranks together, after a barrier.
  void begin_together() {
    settle();
    if (trainee_.communicator != nullptr) trainee_.communicator->barrier()->wait();
    begin_here();
  }

  /// Starts the next step's clock on this rank alone.
  void begin_here() {
    settle();
    end_s_ = clock_.synchronize();
  }

  void record() {
    for (int i = 0; i < *options_.record_after; ++i) issue(/*timed=*/false);
    // Recording must not find work of earlier steps in the stream.
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
      // A comparison has read all parameters and left other data in the caches: this step only refills them.
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

  /// Finishes all issued steps.
  void settle() {
    while (issued_.count() > 0) finish_oldest();
  }

  /// Issues a step, then finishes old ones until at most most_ahead() are left: there are only so many places
  /// in host memory for losses on their way from the GPU.
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
    // A run that diverged ends here, up to two steps late on a GPU, with the step's own number.
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
    // The error of a GPU's clock grows with the distance between two marks, so count from this end on.
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
  /// Seconds of all timed steps so far, warm-up included.
  std::vector<double> durations_s_;
  size_t warmup_steps_ = 0;
  /// End of the last finished step, or beginning of the next one after a pause.
  double end_s_ = 0;
  /// Steps issued so far.
  int64_t step_ = 0;
  /// Collectives of the steps that are issued and not finished.
  size_t collectives_ahead_ = 0;
  int64_t steps_since_check_ = 0;
  /// Whether the replicas were compared since the last step; the next one is not timed then.
  bool just_checked_ = false;
};

}  // namespace

StepLoopResult run_steps(const Trainee& trainee, const StepLoopOptions& options, launch::Progress& progress) {
  return StepLoop(trainee, options, progress).run();
}

}  // namespace lockstep::train
