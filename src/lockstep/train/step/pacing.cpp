#include "lockstep/train/step/pacing.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

namespace lockstep::train {
namespace {

/// Small, so that a network whose step takes seconds does not overrun its time.
constexpr size_t kStepsToFirstDecision = 8;
/// Measured steps that a row usually takes on a quiet machine when the precision decides.
constexpr int kUsualSteps = 60;

/// As measure::decide_stop for a fixed number of steps.
measure::StoppingDecision decide_by_count(std::span<const double> step_s, const PacingOptions& options) {
  measure::StoppingDecision decision{.steady = steady_state(step_s, options)};
  const size_t measured = step_s.size() - std::min(decision.steady.cut, step_s.size());
  const auto wanted = static_cast<size_t>(*options.steps);
  decision.stop = measured >= wanted;
  decision.text = fmt::format("the {} steps asked for were run", wanted);
  decision.steps_to_next = wanted - std::min(measured, wanted);
  return decision;
}

measure::StoppingDecision decide_by_precision(std::span<const double> step_s, double elapsed_s,
                                              const PacingOptions& options) {
  measure::StoppingOptions stopping;
  stopping.precision_target = options.precision_target;
  stopping.min_time_s = options.min_time_s;
  stopping.max_time_s = options.max_time_s;
  if (options.warmup_steps) stopping.fixed_warmup = static_cast<size_t>(*options.warmup_steps);
  measure::StoppingDecision decision = measure::decide_stop(step_s, elapsed_s, stopping);
  // The time may run out within warm-up; one more step is then measured, so that every row has a sample.
  if (decision.stop && step_s.size() <= decision.steady.cut) decision.stop = false;
  decision.steps_to_next = std::max<size_t>(1, decision.steps_to_next);
  return decision;
}

measure::StoppingDecision decide(std::span<const double> step_s, double elapsed_s,
                                 const PacingOptions& options) {
  return options.steps ? decide_by_count(step_s, options) : decide_by_precision(step_s, elapsed_s, options);
}

}  // namespace

measure::SteadyState steady_state(std::span<const double> step_s, const PacingOptions& options) {
  if (options.warmup_steps) {
    return measure::fixed_warmup(step_s, static_cast<size_t>(*options.warmup_steps));
  }
  return measure::find_steady_state(step_s);
}

size_t certain_warmup(const PacingOptions& options) {
  return options.warmup_steps ? static_cast<size_t>(*options.warmup_steps) : measure::kLeastWarmup;
}

size_t steps_to_first_decision(const PacingOptions& options) {
  return certain_warmup(options) + (options.steps ? static_cast<size_t>(*options.steps)
                                                  : kStepsToFirstDecision - measure::kLeastWarmup);
}

int expected_steps(const PacingOptions& options) {
  return static_cast<int>(certain_warmup(options)) + options.steps.value_or(kUsualSteps);
}

measure::StoppingDecision decide_pace(std::span<const double> step_s, double elapsed_s,
                                      const PacingOptions& options, comm::Communicator* group) {
  if (group == nullptr) return decide(step_s, elapsed_s, options);
  std::vector<double> longest_s(step_s.begin(), step_s.end());
  group->all_reduce(comm::host_buffer(longest_s.data(), longest_s.size()), comm::ReduceOp::kMax)->wait();
  measure::StoppingDecision decision;
  // Rank 0 alone decides: elapsed times differ, and ranks that disagreed would wait in different collectives.
  if (group->rank() == 0) decision = decide(longest_s, elapsed_s, options);
  std::array<int64_t, 3> agreed{decision.stop ? 1 : 0, static_cast<int64_t>(decision.steps_to_next),
                                static_cast<int64_t>(decision.steady.cut)};
  group->broadcast(comm::host_buffer(agreed.data(), agreed.size()), 0)->wait();
  decision.stop = agreed[0] != 0;
  decision.steps_to_next = static_cast<size_t>(agreed[1]);
  decision.steady.cut = static_cast<size_t>(agreed[2]);
  return decision;
}

}  // namespace lockstep::train
