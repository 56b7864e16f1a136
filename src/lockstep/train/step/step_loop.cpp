#include "lockstep/train/step/step_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>

#include <fmt/format.h>

#include <ATen/core/grad_mode.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/train/step/training_step.h"

namespace lockstep::train {
namespace {

/// Shortest and longest time between two checks whether all ranks have finished.
constexpr std::chrono::milliseconds kShortestPause{10};
constexpr std::chrono::milliseconds kLongestPause{500};

/// A step that was issued to a device. `loss` and `hits` are known once the device has reached the step's
/// end.
struct IssuedStep {
  /// Steps trained before it.
  int64_t step = 0;
  bool timed = false;
  StepInstants at;
  /// When the device reached its end.
  double end_s = 0;
  /// Collectives issued in it.
  size_t collectives = 0;
  double loss = 0;
  int64_t hits = 0;
};

/// The steps that were issued to a device and not yet finished, in order. A GPU is given the next steps while
/// it computes, so that it never waits for the host; on the CPU a step is over when it was issued.
class IssuedSteps {
 public:
  /// `accelerator` outlives this; null: the CPU.
  IssuedSteps(replica::Accelerator* accelerator, const StepClock& clock)
      : accelerator_(accelerator), clock_(clock) {
    if (accelerator_ == nullptr) return;
    for (size_t i = 0; i <= kMostAhead; ++i) {
      // Zero is what stays where hits are not counted.
      readbacks_.push_back(
          {accelerator_->pinned({}, at::kFloat), accelerator_->pinned({}, at::kLong).zero_()});
    }
  }

  /// Adds a step and stamps its end. Never waits for a GPU. At most most_ahead() other steps may be
  /// unfinished.
  void add(IssuedStep step, const StepOutcome& outcome) {
    if (accelerator_ == nullptr) {
      step.loss = outcome.loss.item<float>();
      if (outcome.hits.defined()) step.hits = outcome.hits.item<int64_t>();
    } else {
      const at::NoGradGuard no_grad;
      const Readback& readback = readbacks_[added_++ % readbacks_.size()];
      // Copied in the stream, before the mark at the step's end, after which they may be read.
      readback.loss.copy_(outcome.loss, /*non_blocking=*/true);
      if (outcome.hits.defined()) readback.hits.copy_(outcome.hits, /*non_blocking=*/true);
    }
    step.at.end = clock_.now();
    issued_.push_back(std::move(step));
  }

  /// Steps that may be unfinished when the next one is issued.
  size_t most_ahead() const { return accelerator_ == nullptr ? 0 : kMostAhead; }
  size_t count() const { return issued_.size(); }

  /// Removes the oldest step, and waits until the device has reached its end.
  IssuedStep finish_oldest() {
    IssuedStep step = std::move(issued_.front());
    issued_.pop_front();
    step.end_s = clock_.wait_for(step.at.end);
    if (accelerator_ != nullptr) {
      const Readback& readback = readbacks_[(added_ - issued_.size() - 1) % readbacks_.size()];
      step.loss = readback.loss.item<float>();
      step.hits = readback.hits.item<int64_t>();
    }
    return step;
  }

 private:
  /// One step that runs and one that is ready to follow it. With fewer the GPU would idle while the host
  /// reads a finished step; more would only delay the report of a loss that is not finite.
  static constexpr size_t kMostAhead = 2;

  /// Pinned host memory that a GPU copies a step's results to.
  struct Readback {
    at::Tensor loss;
    at::Tensor hits;
  };

  replica::Accelerator* accelerator_;
  const StepClock& clock_;
  std::deque<IssuedStep> issued_;
  /// One more than the steps ahead, used in turn: a step's place is free again when it is finished.
  std::vector<Readback> readbacks_;
  size_t added_ = 0;
};

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
// A step lasts from the end of the step before to its own end, so that nothing falls between steps. All
// other work (decisions by the times, comparisons of replicas, a recording) happens in a pause:
// settle() first, so that all issued steps have ended and their times are read, then the work, then
// begin_together(), which restarts the clock after a barrier. The barrier is part of the pause, so waiting
// for the others costs no step.
class StepLoop {
 public:
  StepLoop(const Trainee& trainee, const StepLoopOptions& options, launch::Progress& progress)
      : trainee_(trainee),
        options_(options),
        progress_(progress),
        clock_(trainee.accelerator),
        issued_(trainee.accelerator, clock_),
        training_step_(trainee, options, clock_),
        period_(options.pacing.period) {
    // Reserved so that no step pays for a growing vector; uncoupled ranks go on beyond their own last step.
    durations_s_.reserve(options.pacing.fixed() ? 4 * steps_to_first_decision(options.pacing)
                                                : size_t{1} << 14);
  }

  StepLoopResult run() {
    begin_together();
    if (options_.record_after) record();
    options_.pacing.fixed() ? run_fixed() : run_until_enough();
    if (!options_.coupled && trainee_.communicator != nullptr) train_until_all_finish();
    settle();
    if (options_.trained) options_.trained();
    trainee_.strategy.finish();
    if (options_.check_every > 0 && !just_checked_) check();
    const auto first_measured = durations_s_.begin() + static_cast<std::ptrdiff_t>(warmup_steps_);
    // A sample is the mean step of its period.
    for (double& duration_s : durations_s_) duration_s /= period_;
    result_.warmup_s.assign(durations_s_.begin(), first_measured);
    result_.step_s.assign(first_measured, durations_s_.end());
    if (!result_.stamps.empty()) {
      result_.stamps.erase(result_.stamps.begin(),
                           result_.stamps.begin() + static_cast<std::ptrdiff_t>(warmup_steps_) * period_);
    }
    return std::move(result_);
  }

 private:
  /// Keeps the machine loaded until the slowest rank has finished: a rank that stopped early would leave its
  /// share of memory bandwidth and power to the others.
  void train_until_all_finish() {
    if (trainee_.store == nullptr) {
      const comm::WorkPtr all_finished = trainee_.communicator->barrier();
      while (!all_finished->test()) issue(/*timed=*/true);
      return;
    }
    const auto begin = Clock::now();
    const auto finished = [&](int64_t more) {
      return trainee_.store->add(trainee_.finished_key, more) >= trainee_.communicator->size();
    };
    if (finished(1)) return;
    while (true) {
      // A check takes a round trip, so checks become rarer: a tenth of the time waited so far.
      const auto waited = Clock::now() - begin;
      const auto next_check =
          Clock::now() + std::clamp<Clock::duration>(waited / 10, kShortestPause, kLongestPause);
      do {
        issue(/*timed=*/true);
      } while (Clock::now() < next_check);
      if (finished(0)) return;
    }
  }

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
    warmup_steps_ = certain_warmup(options_.pacing);
    for (size_t i = 0; i < warmup_steps_; ++i) checked_step();
    end_warmup();
    begin_together();
    lead_in();
    for (int i = 0; i < options_.pacing.samples(*options_.pacing.steps); ++i) checked_step();
    result_.ending = {
        .warmup_choice = fmt::format("{} steps, as told", warmup_steps_ * static_cast<size_t>(period_)),
        .stopped = steps_were_run(options_.pacing),
        .unsettled = ""};
  }

  void run_until_enough() {
    comm::Communicator* deciders = options_.coupled ? trainee_.communicator : nullptr;
    const double begin_s = end_s_;
    const size_t warm = certain_warmup(options_.pacing);
    size_t trained = 0;
    size_t further = steps_to_first_decision(options_.pacing);
    while (true) {
      for (size_t i = 0; i < further; ++i) {
        if (trained++ == warm) end_warmup();
        checked_step();
      }
      settle();
      measure::StoppingDecision decision =
          decide_pace(durations_s_, now_s() - begin_s, options_.pacing, deciders);
      warmup_steps_ = decision.steady.cut;
      if (decision.stop) {
        if (trained <= warm) end_warmup();
        result_.ending = {std::move(decision.steady.chosen), std::move(decision.text),
                          std::move(decision.steady.unsettled_reason)};
        begin_here();
        // An uncoupled rank goes on.
        if (!options_.coupled) lead_in();
        return;
      }
      further = decision.steps_to_next;
      deciders != nullptr ? begin_together() : begin_here();
      lead_in();
    }
  }

  /// The end of the steps that are certain to be warm-up, in which libraries try out their algorithms.
  void end_warmup() const {
    if (options_.warmed_up) options_.warmed_up();
  }

  /// After a pause a GPU has nothing ahead: its first step waits for the host to issue it, which no other
  /// step does. That one is not timed.
  void lead_in() {
    if (options_.leads_in && trainee_.accelerator != nullptr) issue(/*timed=*/false);
  }

  /// A sample: a step, or a period of them.
  void checked_step() {
    if (just_checked_) {
      // A comparison has read all parameters and left other data in the caches: this step only refills them.
      issue(/*timed=*/false);
      begin_together();
      lead_in();
      just_checked_ = false;
    }
    for (int i = 0; i < period_; ++i) issue(/*timed=*/true);
    if (options_.check_every == 0) return;
    steps_since_check_ += period_;
    if (steps_since_check_ < options_.check_every) return;
    steps_since_check_ = 0;
    check();
  }

  void check() {
    settle();
    options_.check(step_);
    just_checked_ = true;
    ++result_.checks;
  }

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
    if (!std::isfinite(done.loss)) {
      const int rank = trainee_.communicator == nullptr ? 0 : trainee_.communicator->rank();
      throw Error(fmt::format("the loss of rank {} is {} in step {}", rank, done.loss, done.step + 1),
                  "Try a smaller --lr, or --precision fp32.");
    }
    if (options_.hooks.after_step) options_.hooks.after_step(done.loss, done.hits);
    if (done.step == options_.first_step) result_.loss_first = done.loss;
    result_.loss_last = done.loss;
    std::vector<CollectiveStamp> collectives;
    if (trainee_.tracer != nullptr) collectives = trainee_.tracer->take_stamps(done.collectives, clock_);
    collectives_ahead_ -= done.collectives;
    if (done.timed) {
      // Steps of a period are issued together, and all of them are timed.
      if (timed_++ % period_ == 0) durations_s_.push_back(0);
      durations_s_.back() += done.end_s - end_s_;
      if (timed_ % period_ == 0) progress_.took(durations_s_.back() / period_);
      if (trainee_.stamp_phases) {
        result_.stamps.push_back(done.at.stamps(end_s_, done.end_s, clock_));
        result_.stamps.back().collectives = std::move(collectives);
      }
    }
    end_s_ = done.end_s;
    // The error of a GPU's clock grows with the distance between two marks, so count from this end on.
    clock_.set_by(done.at.end, done.end_s);
    progress_.completed(done.step + 1);
  }

  const Trainee& trainee_;
  const StepLoopOptions& options_;
  launch::Progress& progress_;
  StepClock clock_;
  IssuedSteps issued_;
  TrainingStep training_step_;
  StepLoopResult result_;
  /// Steps in a sample, and timed steps finished so far.
  const int period_;
  int64_t timed_ = 0;
  /// Seconds of all samples so far, warm-up included.
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
