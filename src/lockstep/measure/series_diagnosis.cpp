#include "lockstep/measure/series_diagnosis.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/measure/long_run_variance.h"
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

}  // namespace lockstep::measure
