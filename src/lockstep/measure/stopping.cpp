#include "lockstep/measure/stopping.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include <fmt/core.h>
#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/measure/interval.h"
#include "lockstep/measure/series.h"

namespace lockstep::measure {
namespace {

/// How strongly a series speaks for a change of its level, against first-order autocorrelated noise. The
/// statistics are squared t values of the change in a regression with autocorrelated errors (Cochrane and
/// Orcutt 1949), so that a wandering series is not taken for a change, divided by how much more the remaining
/// errors vary in the long run than singly.
struct ChangeStatistic {
  double squared_t = 0;
  /// The first value of the new level; 0 for a trend.
  size_t at = 0;
  /// The share of the variance that the change explains.
  double explained = 0;
};

/// Rounds of fitting change and correlation in turn; the third changes hardly anything any more.
constexpr int kRounds = 3;
constexpr double kLargestLagOne = 0.97;
/// A squared t value below every threshold in use.
constexpr double kNeverNamed = 9;

/// Sums of a regression on two columns, a constant and the change d, after each value's share of its
/// predecessor has been taken out of all of them.
struct Sums {
  double n = 0, y = 0, yy = 0, d = 0, dd = 0, dy = 0;

  double gain() const {
    const double spread = dd - d * d / n;
    const double shared = dy - d * y / n;
    return spread > 0 ? shared * shared / spread : 0;
  }
  double slope() const { return (dy - d * y / n) / (dd - d * d / n); }
  double left() const { return std::max(yy - y * y / n - gain(), 0.0); }
  double squared_t() const {
    const double scale = left() / (n - 3);
    return scale > 0 ? gain() / scale : 0;
  }
};

struct Fit {
  Sums sums;
  size_t at = 0;
};

/// The best of all shifts that leave `margin` values on both sides, in O(n): from one place to the one before
/// it, the sums change by two values.
Fit fit_shift(std::span<const double> y, double lag_one, size_t margin) {
  const size_t n = y.size();
  Sums sums;
  sums.n = static_cast<double>(n - 1);
  for (size_t i = 1; i < n; ++i) {
    const double value = y[i] - lag_one * y[i - 1];
    sums.y += value;
    sums.yy += value * value;
  }
  // From the back: `after` is the sum of the `count` whitened values behind the first of the new level. The
  // whitened column d is 0 before that first one, 1 on it, and 1 - lag_one behind it.
  const double keep = 1 - lag_one;
  double after = 0;
  double count = 0;
  Fit best;
  for (size_t at = n - 1; at >= std::max<size_t>(margin, 1); --at) {
    const double first = y[at] - lag_one * y[at - 1];
    if (n - at >= margin) {
      sums.d = 1 + keep * count;
      sums.dd = 1 + keep * keep * count;
      sums.dy = first + keep * after;
      if (best.at == 0 || sums.gain() > best.sums.gain()) best = {sums, at};
    }
    after += first;
    count += 1;
  }
  return best;
}

Fit fit_line(std::span<const double> y, double lag_one) {
  Sums sums;
  sums.n = static_cast<double>(y.size() - 1);
  for (size_t i = 1; i < y.size(); ++i) {
    const double value = y[i] - lag_one * y[i - 1];
    const double place = (1 - lag_one) * static_cast<double>(i) + lag_one;
    sums.y += value;
    sums.yy += value * value;
    sums.d += place;
    sums.dd += place * place;
    sums.dy += place * value;
  }
  return {sums, 0};
}

/// Fits the change and the correlation of the residuals in turn.
template <typename FitChange, typename Change>
ChangeStatistic statistic(std::span<const double> values, const FitChange& fit_change, const Change& change) {
  double lag_one = 0;
  Fit fit;
  std::vector<double> rest(values.begin(), values.end());
  for (int round = 0; round < kRounds; ++round) {
    fit = fit_change(lag_one);
    const double slope = fit.sums.slope();
    for (size_t i = 0; i < values.size(); ++i) rest[i] = values[i] - slope * change(fit, i);
    const double next = std::clamp(corrected_lag_one(rest, 2), 0.0, kLargestLagOne);
    if (round + 1 < kRounds) lag_one = next;
  }
  ChangeStatistic result;
  result.at = fit.at;
  result.squared_t = fit.sums.squared_t();
  const double all = squared_deviations(values);
  result.explained = all > 0 ? 1 - squared_deviations(rest) / all : 0;

  // Allows for a longer memory of the errors than the regression models. Costly, so only where it can matter.
  if (result.squared_t < kNeverNamed) return result;
  std::vector<double> errors(rest.size() - 1);
  for (size_t i = 1; i < rest.size(); ++i) errors[i - 1] = rest[i] - lag_one * rest[i - 1];
  const LongRunVariance memory = long_run_variance(errors);
  if (memory.single > 0) result.squared_t /= std::max(1.0, memory.value / memory.single);
  return result;
}

/// The strongest shift of all (Andrews 1993). O(n).
ChangeStatistic level_shift_statistic(std::span<const double> values, size_t margin) {
  return statistic(
      values, [&](double lag_one) { return fit_shift(values, lag_one, margin); },
      [](const Fit& fit, size_t i) { return i >= fit.at ? 1.0 : 0.0; });
}

/// A straight line through the whole series.
ChangeStatistic trend_statistic(std::span<const double> values) {
  return statistic(
      values, [&](double lag_one) { return fit_line(values, lag_one); },
      [](const Fit&, size_t i) { return static_cast<double>(i); });
}

/// Squared t values beyond which a change is named, set by trial so that about 1 settled series in 1,000 is
/// named at correlations up to 0.7 (docs/dev/statistics.md has the table); short series need more.
double shift_threshold(double n) {
  return 25 + 300 / n;
}
double trend_threshold(double n) {
  return 14 + 600 / n;
}

/// A shift within steps [first, end) of the series.
std::optional<LevelShift> shift_in(std::span<const double> step_s, std::span<const double> scores,
                                   size_t first, size_t end) {
  const size_t n = end - first;
  const ChangeStatistic found = level_shift_statistic(scores.subspan(first, n), std::max<size_t>(5, n / 20));
  if (found.squared_t < shift_threshold(static_cast<double>(n))) return std::nullopt;
  const LevelShift shift{.step = first + found.at,
                         .before = median_of(step_s.subspan(first, found.at)),
                         .after = median_of(step_s.subspan(first + found.at, n - found.at)),
                         .explained = found.explained};
  if (!(std::abs(shift.after - shift.before) > kMaterialChange * shift.before)) return std::nullopt;
  return shift;
}

/// Looks at the whole series first, then at overlapping halves, in which a passing phase stands out that the
/// whole averages away.
std::optional<LevelShift> find_shift(std::span<const double> step_s, std::span<const double> scores) {
  const size_t n = step_s.size();
  if (auto found = shift_in(step_s, scores, 0, n)) return found;
  if (n < 4 * kMinForDiagnosis) return std::nullopt;
  std::optional<LevelShift> best;
  for (const size_t first : {size_t{0}, n / 4, n / 2}) {
    auto found = shift_in(step_s, scores, first, std::min(first + n / 2, n));
    if (found && (!best || found->explained > best->explained)) best = found;
  }
  return best;
}

/// The last step over the first, less 1, by the median slope between the logarithms of the medians of up to
/// 40 blocks (Theil 1950, Sen 1968).
double robust_change(std::span<const double> step_s) {
  const size_t n = step_s.size();
  const size_t blocks = std::min<size_t>(40, n);
  std::vector<double> place(blocks);
  std::vector<double> level(blocks);
  for (size_t b = 0; b < blocks; ++b) {
    const size_t first = b * n / blocks;
    const size_t end = (b + 1) * n / blocks;
    place[b] = 0.5 * static_cast<double>(first + end - 1);
    level[b] = logarithm(median_of(step_s.subspan(first, end - first)));
  }
  std::vector<double> slopes;
  for (size_t a = 0; a < blocks; ++a) {
    for (size_t b = a + 1; b < blocks; ++b) slopes.push_back((level[b] - level[a]) / (place[b] - place[a]));
  }
  return slopes.empty() ? 0 : std::expm1(median_of(slopes) * static_cast<double>(n - 1));
}

Outliers find_outliers(std::span<const double> step_s, const std::optional<LevelShift>& shift,
                       double median) {
  constexpr double kFar = 5;
  constexpr double kMaterial = 0.05;
  Outliers outliers;
  if (median <= 0) return outliers;
  std::vector<double> ratios(step_s.size());
  std::vector<double> above;
  std::vector<double> below;
  for (size_t i = 0; i < step_s.size(); ++i) {
    const double level = !shift ? median : i < shift->step ? shift->before : shift->after;
    ratios[i] = step_s[i] / level - 1;
    if (ratios[i] >= 0) above.push_back(ratios[i]);
    if (ratios[i] <= 0) below.push_back(-ratios[i]);
  }
  const auto limit = [&](const std::vector<double>& side) {
    return side.empty() ? kMaterial : std::max(kMaterial, kFar * 1.4826 * median_of(side));
  };
  const double highest = limit(above);
  const double lowest = -limit(below);
  for (size_t i = 0; i < ratios.size(); ++i) {
    if (ratios[i] > highest || ratios[i] < lowest) ++outliers.count;
    if (ratios[i] > highest && 1 + ratios[i] > outliers.largest_ratio) {
      outliers.largest_ratio = 1 + ratios[i];
      outliers.largest_step = i;
    }
  }
  outliers.share = static_cast<double>(outliers.count) / static_cast<double>(step_s.size());
  return outliers;
}

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

/// Growth of the step count from one check to the next.
constexpr double kGrowth = 1.25;

/// Most time of the steps to the next check, so that a row whose steps become slower ends in time all the
/// same: the larger of these seconds and this share of the time so far.
constexpr double kMostAhead_s = 10;
constexpr double kMostAhead = 0.1;

/// Fewest degrees of freedom of an interval that may stop a run: with fewer its width is a matter of luck.
constexpr double kMinDegrees = 8;

/// Fewest steady steps with which precision can stop a run.
constexpr size_t kMinSteps = 30;

constexpr IntervalOptions kUnchecked{.check_settled = false};

bool narrow(const Estimate& estimate, const StoppingOptions& options) {
  return estimate.interval && estimate.degrees >= kMinDegrees &&
         estimate.interval->half_width_share < options.precision_target;
}

/// Whether both intervals were narrow at about the step count of the previous check.
bool was_narrow(std::span<const double> steady, const StoppingOptions& options) {
  const auto earlier = steady.first(static_cast<size_t>(static_cast<double>(steady.size()) / kGrowth));
  return narrow(quantile_estimate(earlier, 0.5, kUnchecked), options) &&
         narrow(mean_estimate(earlier, kUnchecked), options);
}

std::string precision_text(const StoppingDecision& decision) {
  if (!decision.steady.settled) return fmt::format("not settled ({})", decision.steady.unsettled_reason);
  if (!decision.median.interval) return decision.median.reason_text;
  const auto percent = [](const Estimate& estimate) {
    return format_number(100 * estimate.interval->half_width_share, 2);
  };
  const std::string mean = decision.mean.interval ? fmt::format("to {} %", percent(decision.mean)) : "not";
  return fmt::format("median known to {} %, mean {}", percent(decision.median), mean);
}

/// Takes the interval away unless the run is settled; the cut's verdict on the remaining steps says why.
void require_settled(Estimate& estimate, const SteadyState& steady) {
  if (steady.settled || !estimate.interval) return;
  estimate.interval.reset();
  estimate.reason_text = steady.unsettled_reason;
}

/// `missing_s`: to the least time of steady steps.
size_t steps_to_next(const StoppingDecision& decision, size_t steps, double elapsed_s, double missing_s,
                     double step_s, const StoppingOptions& options) {
  const size_t steady = decision.steady.remainder.steps;
  const auto now = static_cast<double>(steady);
  double next = std::max(now * kGrowth, now + 4);
  // While unsettled, the cut may still move and restart the count after it.
  if (decision.steady.settled && steady < kMinSteps) next = double{kMinSteps};
  double further = std::ceil(next - now);
  if (decision.steady.settled && step_s > 0) further = std::max(further, std::ceil(missing_s / step_s));
  const double ahead_s =
      std::min(options.max_time_s - elapsed_s, std::max(kMostAhead_s, kMostAhead * elapsed_s));
  if (step_s > 0) further = std::min(further, std::ceil(ahead_s / step_s));
  if (options.max_steps > steps) further = std::min(further, static_cast<double>(options.max_steps - steps));
  return static_cast<size_t>(std::max(further, 1.0));
}

}  // namespace

SeriesDiagnosis diagnose(std::span<const double> step_s) {
  require_step_times(step_s);
  SeriesDiagnosis diagnosis;
  diagnosis.steps = step_s.size();
  if (step_s.empty()) return diagnosis;
  diagnosis.median = median_of(step_s);
  if (step_s.size() >= kMinForDiagnosis) {
    const std::vector<double> scores = normal_scores(step_s);
    const auto n = static_cast<double>(step_s.size());
    const ChangeStatistic line = trend_statistic(scores);
    const double trend = diagnosis.median > 0 ? robust_change(step_s) : 0;
    const bool rises = line.squared_t > trend_threshold(n) && std::abs(trend) > kMaterialChange;
    const auto shift = find_shift(step_s, scores);
    if (shift && (!rises || shift->explained > line.explained)) {
      diagnosis.level_shift = shift;
    } else if (rises) {
      diagnosis.trend = trend;
    }
  }
  diagnosis.outliers = find_outliers(step_s, diagnosis.level_shift, diagnosis.median);
  return diagnosis;
}

std::string SeriesDiagnosis::unsettled_reason(size_t first_step) const {
  if (level_shift) return fmt::format("level shift at step {}", first_step + level_shift->step);
  return trend ? "trend" : "";
}

std::string SeriesDiagnosis::text() const {
  std::vector<std::string> parts;
  if (level_shift) {
    parts.push_back(fmt::format("level shift at step {}: from {} ms to {} ms ({:+.1f} %)", level_shift->step,
                                format_number(level_shift->before * 1e3, 4),
                                format_number(level_shift->after * 1e3, 4),
                                level_shift->change_share() * 100));
  }
  if (trend) {
    parts.push_back(fmt::format("trend: the step time {} by {:.1f} % from first to last step",
                                *trend > 0 ? "rises" : "falls", std::abs(*trend) * 100));
  }
  if (outliers.count > 0) {
    std::string part = fmt::format("{} of {} steps lie far from the rest", outliers.count, steps);
    if (outliers.largest_ratio > 0) {
      part += fmt::format(", the slowest (step {}) at {:.1f} times the median", outliers.largest_step,
                          outliers.largest_ratio);
    }
    parts.push_back(part);
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

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

StoppingDecision decide_stop(std::span<const double> step_s, double elapsed_s,
                             const StoppingOptions& options) {
  StoppingDecision decision;
  decision.steady =
      options.fixed_warmup ? fixed_warmup(step_s, *options.fixed_warmup) : find_steady_state(step_s);
  const auto steady = step_s.subspan(decision.steady.cut);
  decision.median = quantile_estimate(steady, 0.5, kUnchecked);
  decision.mean = mean_estimate(steady, kUnchecked);
  require_settled(decision.median, decision.steady);
  require_settled(decision.mean, decision.steady);

  const double steady_s = std::accumulate(steady.begin(), steady.end(), 0.0);
  const bool precise = decision.steady.settled && steady.size() >= kMinSteps &&
                       steady_s >= options.min_time_s && narrow(decision.median, options) &&
                       narrow(decision.mean, options) && was_narrow(steady, options);
  decision.stop = true;
  if (precise) {
    decision.text = fmt::format("precise: {}", precision_text(decision));
  } else if (elapsed_s >= options.max_time_s) {
    decision.text =
        fmt::format("the time of {:g} s is over; {}", options.max_time_s, precision_text(decision));
  } else if (step_s.size() >= options.max_steps && steady_s >= options.min_time_s) {
    decision.text = fmt::format("{} steps are the most; {}", options.max_steps, precision_text(decision));
  } else {
    decision.stop = false;
    const double typical = steady.empty() ? 0 : median_of(steady);
    decision.steps_to_next =
        steps_to_next(decision, step_s.size(), elapsed_s, options.min_time_s - steady_s, typical, options);
    decision.text = fmt::format("continue: {}", precision_text(decision));
  }
  return decision;
}

}  // namespace lockstep::measure
