#include "lockstep/train/step/pacing.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "lockstep/measure/stopping.h"

namespace lockstep::train {
namespace {

/// Steps that are always warm-up: DDP's reducer rebuilds its buckets after the first.
constexpr size_t kWarmupFloor = 3;
/// Small, so that a network whose step takes seconds does not overrun its time.
constexpr size_t kStepsToFirstLook = 8;

PacingDecision decide_by_count(std::span<const double> step_s, const PacingOptions& options) {
  const measure::SteadyState steady = steady_state(step_s, options);
  PacingDecision decision;
  decision.warmup_steps = steady.cut;
  decision.warmup_choice = steady.chosen;
  const size_t measured = step_s.size() - std::min(steady.cut, step_s.size());
  const auto wanted = static_cast<size_t>(*options.steps);
  decision.stop = measured >= wanted;
  if (decision.stop) {
    decision.stopped = fmt::format("the {} steps asked for were run", wanted);
    decision.unsettled = steady.unsettled_reason;
  } else {
    decision.further_steps = wanted - measured;
  }
  return decision;
}

PacingDecision decide_by_precision(std::span<const double> step_s, double elapsed_s,
                                   const PacingOptions& options) {
  measure::StoppingOptions stopping;
  stopping.precision_target = options.precision_target;
  stopping.min_time_s = options.min_time_s;
  stopping.max_time_s = options.max_time_s;
  stopping.steady_state.floor = kWarmupFloor;
  if (options.warmup_steps) stopping.fixed_warmup = static_cast<size_t>(*options.warmup_steps);
  measure::StoppingDecision found = measure::decide_stop(step_s, elapsed_s, stopping);
  PacingDecision decision;
  decision.warmup_steps = found.steady.cut;
  decision.warmup_choice = std::move(found.steady.chosen);
  // The time may run out within warm-up; one more step is then measured, so that every row has a sample.
  decision.stop = found.stop && step_s.size() > found.steady.cut;
  if (decision.stop) {
    decision.stopped = std::move(found.text);
    decision.unsettled = std::move(found.steady.unsettled_reason);
  } else {
    decision.further_steps = std::max<size_t>(1, found.steps_to_next);
  }
  return decision;
}

PacingDecision decide(std::span<const double> step_s, double elapsed_s, const PacingOptions& options) {
  return options.steps ? decide_by_count(step_s, options) : decide_by_precision(step_s, elapsed_s, options);
}

}  // namespace

measure::SteadyState steady_state(std::span<const double> step_s, const PacingOptions& options) {
  if (options.warmup_steps) {
    return measure::fixed_warmup(step_s, static_cast<size_t>(*options.warmup_steps));
  }
  return measure::find_steady_state(step_s, {.floor = kWarmupFloor});
}

size_t certain_warmup(const PacingOptions& options) {
  return options.warmup_steps ? static_cast<size_t>(*options.warmup_steps) : kWarmupFloor;
}

size_t steps_to_first_look(const PacingOptions& options) {
  return certain_warmup(options) +
         (options.steps ? static_cast<size_t>(*options.steps) : kStepsToFirstLook - kWarmupFloor);
}

PacingDecision look(std::span<const double> step_s, double elapsed_s, const PacingOptions& options,
                    comm::Communicator* group) {
  if (group == nullptr) return decide(step_s, elapsed_s, options);
  std::vector<double> longest_s(step_s.begin(), step_s.end());
  group->all_reduce(comm::host_buffer(longest_s.data(), longest_s.size()), comm::ReduceOp::kMax)->wait();
  PacingDecision decision;
  // Decided once: each rank's elapsed time differs, and ranks that disagreed would wait in different
  // collectives.
  if (group->rank() == 0) decision = decide(longest_s, elapsed_s, options);
  std::array<int64_t, 3> told{decision.stop ? 1 : 0, static_cast<int64_t>(decision.further_steps),
                              static_cast<int64_t>(decision.warmup_steps)};
  group->broadcast(comm::host_buffer(told.data(), told.size()), 0)->wait();
  decision.stop = told[0] != 0;
  decision.further_steps = static_cast<size_t>(told[1]);
  decision.warmup_steps = static_cast<size_t>(told[2]);
  return decision;
}

}  // namespace lockstep::train
