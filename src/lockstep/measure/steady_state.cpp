#include "lockstep/measure/steady_state.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/core.h>

#include "lockstep/measure/long_run_variance.h"
#include "lockstep/measure/series.h"

namespace lockstep::measure {
namespace {

constexpr double kClamp = 4;
/// Share of the step time below which noise is not worth cutting for.
constexpr double kSmallestNoise = 1e-3;
/// Differences between head and rest, in standard errors, beyond which a cut is made, and moved on past a
/// tail.
constexpr double kBeyondChance = 3.5;
constexpr double kTailBeyondChance = 2.8;

/// At most half of a run counts as warm-up: anything that lasted longer was a state of its own.
size_t last_cut(size_t n) {
  const size_t rest = std::max(kMinForDiagnosis, (n + 1) / 2);
  return n > rest ? std::min(kMostWarmup, n - rest) : 0;
}

std::vector<double> scaled(std::span<const double> step_s) {
  std::vector<double> values = logarithms(step_s);
  const RobustScale scale = robust_scale(std::span<const double>(values).subspan(values.size() / 2));
  const double width = std::max(scale.deviation, kSmallestNoise);
  for (double& value : values) value = (value - scale.median) / width;
  return values;
}

std::vector<double> clamped(std::vector<double> values) {
  for (double& value : values) value = std::clamp(value, -kClamp, kClamp);
  return values;
}

/// The cut in [first, last] that minimizes (sum of squared deviations after it) / (steps after it)^3. MSER
/// divides by the square of the length, which in trials cut up to ten settled steps too many.
size_t smallest_error_cut(std::span<const double> values, size_t first, size_t last) {
  double sum = 0;
  double squares = 0;
  double best_error = 0;
  size_t best = last;
  for (size_t cut = values.size(); cut-- > first;) {
    sum += values[cut];
    squares += values[cut] * values[cut];
    if (cut > last) continue;
    const auto length = static_cast<double>(values.size() - cut);
    const double error = (squares - sum * sum / length) / (length * length * length);
    if (cut == last || error <= best_error) {
      best_error = error;
      best = cut;
    }
  }
  return best;
}

/// Variance of the mean of `count` neighbours of a first-order autoregression with variance 1.
double variance_of_short_mean(size_t count, double lag_one) {
  double sum = 1;
  double power = 1;
  for (size_t lag = 1; lag < count && std::abs(power) > 1e-4; ++lag) {
    power *= lag_one;
    sum += 2 * power * (1 - static_cast<double>(lag) / static_cast<double>(count));
  }
  return std::max(sum, 0.0) / static_cast<double>(count);
}

/// At least a quarter of the reference's variance, which is 1: a quiet series has hardly any left once it is
/// clamped.
double variance_of_rest(std::span<const double> values) {
  return std::max(squared_deviations(values) / static_cast<double>(values.size()), 0.25);
}

/// The difference of the mean of steps [first, cut) from that of the rest, in standard errors that allow for
/// correlation.
double standardized_difference(std::span<const double> values, size_t first, size_t cut) {
  const auto head = values.subspan(first, cut - first);
  const auto rest = values.subspan(cut);
  const double lag_one = std::max(corrected_lag_one(rest), 0.0);
  const double variance = variance_of_rest(rest) * (variance_of_short_mean(head.size(), lag_one) +
                                                    variance_of_short_mean(rest.size(), lag_one));
  return (mean_of(head) - mean_of(rest)) / std::sqrt(variance);
}

/// Moves the cut past the tail of a decay, which is below the noise step by step but not in sum: on as long
/// as a stretch after the cut lies on the same side as the steps that were cut. Stretches are at most half as
/// long as the part before them.
size_t past_the_tail(std::span<const double> values, size_t cut, size_t last, bool slower) {
  for (size_t stretch = 2; cut + stretch <= last && 2 * stretch <= cut;) {
    const double off = standardized_difference(values, cut, cut + stretch);
    if ((slower ? off : -off) > kTailBeyondChance) {
      cut += stretch / 2;
      stretch = 2;
    } else {
      stretch *= 2;
    }
  }
  return cut;
}

/// In units of the noise: a decay is followed between these heights; kMiddleHeight is half way for a decay.
constexpr double kHighHeight = 8;
constexpr double kMiddleHeight = 4;
constexpr double kLowHeight = 2;

/// The exponential decay of a warm-up, in steps.
struct Decay {
  /// Steps in which it falls to 1 / e.
  double constant = 0;
  /// The step at which it is down to kLowHeight.
  double low_step = 0;

  /// The first step after which the tail, though far below the noise step by step, adds up to less than half
  /// a standard error of the mean of `count` following steps, which tell as much as `effective` independent
  /// ones.
  double harmless_from(double count, double effective) const {
    // The tail from step s on sums to kLowHeight * constant * exp(-(s - low_step) / constant). Half a
    // standard error of the sum of `count` values with variance 1 is count / (2 * sqrt(effective)).
    const double ratio = 2 * kLowHeight * constant * std::sqrt(effective) / count;
    return ratio > 1 ? low_step + constant * std::log(ratio) : low_step;
  }
};

double median_of_five(std::span<const double> values, size_t at) {
  const size_t reach = std::min({size_t{2}, at, values.size() - 1 - at});
  return median_of(values.subspan(at - reach, 2 * reach + 1));
}

/// Looks for a decay in the first `within` steps, through running medians of five. `deviations`: the distance
/// of each step from the settled level, in units of the noise, positive on the side of the warm-up. Empty if
/// they never exceed kHighHeight. A warm-up that ends at once has a constant near zero.
std::optional<Decay> find_decay(std::span<const double> deviations, size_t within) {
  const size_t end = std::min(within, deviations.size());
  size_t high = end;
  size_t middle = end;
  size_t low = end;
  for (size_t at = end; at-- > 0;) {
    const double here = median_of_five(deviations, at);
    if (low == end && here > kLowHeight) low = at;
    if (middle == end && here > kMiddleHeight) middle = at;
    if (here > kHighHeight) {
      high = at;
      break;
    }
  }
  if (high == end) return std::nullopt;
  double height = kHighHeight;
  for (size_t at = 0; at <= high; ++at) height = std::max(height, median_of_five(deviations, at));
  Decay decay;
  // Three readings of the constant, of which the smallest counts: between the outer heights; over the lower
  // half only, since a warm-up on one level may touch kHighHeight by chance anywhere but ends at once; and
  // over the whole fall, the least uncertain reading of a decay that starts with the first step.
  const auto fall = [](double steps, double from, double to) { return steps / std::log(from / to); };
  decay.constant = std::min({fall(static_cast<double>(low - high), kHighHeight, kLowHeight),
                             1.5 * fall(static_cast<double>(low - middle), kMiddleHeight, kLowHeight),
                             1.2 * fall(static_cast<double>(low + 1), height, kLowHeight)});
  decay.low_step = static_cast<double>(low + 1);
  return decay;
}

/// The step at which the tail of a slow decay has become harmless; `cut` if it already is there.
size_t past_the_decay(std::vector<double> deviations, size_t cut, bool slower) {
  if (!slower) {
    for (double& value : deviations) value = -value;
  }
  const auto decay = find_decay(deviations, cut);
  if (!decay) return cut;
  const auto rest = std::span<const double>(deviations).subspan(cut);
  const auto count = static_cast<double>(rest.size());
  const double lag_one = std::max(corrected_lag_one(rest), 0.0);
  const double from = std::ceil(decay->harmless_from(count, count * (1 - lag_one) / (1 + lag_one)));
  return std::max(cut, static_cast<size_t>(from));
}

void examine_remainder(SteadyState& state, std::span<const double> step_s) {
  state.remainder = diagnose(step_s.subspan(state.cut));
  state.unsettled_reason = state.remainder.steps < kMinForDiagnosis
                               ? "not enough data"
                               : state.remainder.unsettled_reason(state.cut);
  state.settled = state.unsettled_reason.empty();
}

std::string steps_text(size_t steps) {
  return steps == 1 ? "1 step" : fmt::format("{} steps", steps);
}

std::string chosen_text(std::span<const double> step_s, size_t cut) {
  if (cut <= kLeastWarmup) return fmt::format("{}, the least: none after stands out", steps_text(cut));
  const double before = mean_of(step_s.first(cut));
  const double after = mean_of(step_s.subspan(cut));
  return fmt::format("{}: they took {:.2f} times as long as those after, on average", steps_text(cut),
                     after > 0 ? before / after : 1.0);
}

}  // namespace

SteadyState find_steady_state(std::span<const double> step_s, bool only_slower) {
  require_step_times(step_s);
  const size_t n = step_s.size();
  SteadyState state;
  state.cut = std::min(kLeastWarmup, n);
  const size_t last = last_cut(n);
  if (last < kLeastWarmup) {
    state.chosen =
        fmt::format("{}, the least: too few steps to look for the end of warm-up", steps_text(state.cut));
    examine_remainder(state, step_s);
    return state;
  }

  const std::vector<double> deviations = scaled(step_s);
  const std::vector<double> values = clamped(deviations);
  bool decays_on = false;
  // A cut whose difference is within chance may hide a shorter one whose difference is not.
  size_t bound = last;
  for (int attempt = 0; attempt < 5 && bound > kLeastWarmup; ++attempt) {
    const size_t cut = smallest_error_cut(values, kLeastWarmup, bound);
    if (cut == kLeastWarmup) break;
    const double off = standardized_difference(values, kLeastWarmup, cut);
    if (only_slower && off < -kBeyondChance) {
      // Warm-up is that of the steps before it slowed down.
      state.cut = find_steady_state(step_s.first(cut), only_slower).cut;
      break;
    }
    if (std::abs(off) > kBeyondChance) {
      const size_t wanted = past_the_decay(deviations, past_the_tail(values, cut, last, off > 0), off > 0);
      state.cut = std::min(wanted, last);
      decays_on = wanted > last;
      break;
    }
    bound = cut - 1;
  }
  examine_remainder(state, step_s);
  // A warm-up on a level of its own ends in a shift: move the cut there while that leaves enough steps.
  for (int attempt = 0; attempt < 3 && state.remainder.level_shift; ++attempt) {
    const size_t shifted = state.cut + state.remainder.level_shift->step;
    if (shifted > last || 2 * state.remainder.level_shift->step > state.remainder.steps) break;
    if (only_slower && state.remainder.level_shift->change_share() > 0) break;
    state.cut = shifted;
    examine_remainder(state, step_s);
  }
  if (state.settled && decays_on) {
    state.settled = false;
    state.unsettled_reason = kWarmupNotOver;
  }
  state.chosen = chosen_text(step_s, state.cut);
  return state;
}

SteadyState fixed_warmup(std::span<const double> step_s, size_t warmup_steps) {
  require_step_times(step_s);
  SteadyState state;
  state.cut = std::min(warmup_steps, step_s.size());
  state.chosen = fmt::format("{}, as asked for", steps_text(state.cut));
  examine_remainder(state, step_s);
  return state;
}

}  // namespace lockstep::measure
