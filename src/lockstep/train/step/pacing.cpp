#include "lockstep/train/step/pacing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace lockstep::train {
namespace {

/// Small, so that a network whose step takes seconds does not overrun its time.
constexpr size_t kStepsToFirstDecision = 8;
/// Measured steps that a row usually takes on a quiet machine when the precision decides.
constexpr int kUsualSteps = 60;

/// Measured steps before the first decision, if the time allows.
size_t first_measured(const PacingOptions& options) {
  return options.steps ? static_cast<size_t>(options.samples(*options.steps))
                       : kStepsToFirstDecision - measure::kLeastWarmup;
}

/// As measure::decide_stop for a fixed number of steps.
measure::StoppingDecision decide_by_count(std::span<const double> step_s, double elapsed_s,
                                          const PacingOptions& options) {
  measure::StoppingDecision decision{.steady = steady_state(step_s, options)};
  const size_t measured = step_s.size() - std::min(decision.steady.cut, step_s.size());
  const size_t wanted = first_measured(options);
  const auto in_steps = [&](size_t samples) { return samples * static_cast<size_t>(options.period); };
  decision.stop = measured >= wanted || elapsed_s >= options.time_limit_s();
  decision.text = measured >= wanted
                      ? steps_were_run(options)
                      : fmt::format("the time of {:g} s is over, and {} of {} steps were measured",
                                    options.time_limit_s(), in_steps(measured), in_steps(wanted));
  decision.steps_to_next = wanted - std::min(measured, wanted);
  return decision;
}

measure::StoppingDecision decide_by_precision(std::span<const double> step_s, double elapsed_s,
                                              const PacingOptions& options) {
  measure::StoppingOptions stopping;
  stopping.precision_target = options.precision_target;
  stopping.min_time_s = options.min_time_s;
  stopping.max_time_s = options.time_limit_s();
  if (options.warmup_steps) stopping.fixed_warmup = certain_warmup(options);
  return measure::decide_stop(step_s, elapsed_s, stopping);
}

measure::StoppingDecision decide(std::span<const double> step_s, double elapsed_s,
                                 const PacingOptions& options) {
  measure::StoppingDecision decision = options.steps ? decide_by_count(step_s, elapsed_s, options)
                                                     : decide_by_precision(step_s, elapsed_s, options);
  const size_t steps = step_s.size();
  if (decision.stop && decision.steady.cut >= steps) {
    // The time is over within warm-up, and every row has a sample.
    decision.steady.cut = steps - 1;
    decision.steady.unsettled_reason = measure::kWarmupNotOver;
  }
  const size_t warm = certain_warmup(options);
  const bool early = steps < std::min(warm + first_measured(options), kStepsToFirstDecision);
  if (early) decision.steps_to_next = warm + first_measured(options) - steps;
  if (options.steps || early) {
    // Those that fit into half of the time that is left: later steps may take longer.
    const double fit = 0.5 * (options.time_limit_s() - elapsed_s) * static_cast<double>(steps) / elapsed_s;
    if (fit < static_cast<double>(decision.steps_to_next))
      decision.steps_to_next = static_cast<size_t>(std::max(fit, 0.0));
  }
  decision.steps_to_next = std::max<size_t>(1, decision.steps_to_next);
  return decision;
}

}  // namespace

std::string steps_were_run(const PacingOptions& options) {
  const int run = options.period * options.samples(*options.steps);
  return fmt::format("the {} steps asked for were run", *options.steps) +
         (run == *options.steps ? "" : fmt::format(", as {} of whole periods", run));
}

measure::SteadyState steady_state(std::span<const double> step_s, const PacingOptions& options) {
  if (options.warmup_steps) {
    return measure::fixed_warmup(step_s, certain_warmup(options));
  }
  return measure::find_steady_state(step_s);
}

size_t certain_warmup(const PacingOptions& options) {
  return options.warmup_steps ? static_cast<size_t>(options.samples(*options.warmup_steps))
                              : measure::kLeastWarmup;
}

size_t steps_to_first_decision(const PacingOptions& options) {
  const size_t all = certain_warmup(options) + first_measured(options);
  // The first step tells how many fit into the time.
  if (options.max_time_s) return 1;
  return std::isinf(options.time_limit_s())
             ? all
             : std::min(all,
                        std::max<size_t>(1, kStepsToFirstDecision / static_cast<size_t>(options.period)));
}

int expected_steps(const PacingOptions& options) {
  const int measured = options.steps ? options.samples(*options.steps) : kUsualSteps;
  return options.period * (static_cast<int>(certain_warmup(options)) + measured);
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
