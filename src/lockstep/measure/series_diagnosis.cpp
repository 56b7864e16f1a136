#include "lockstep/measure/series_diagnosis.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "lockstep/measure/change_statistic.h"
#include "lockstep/measure/distributions.h"
#include "lockstep/measure/long_run_variance.h"
#include "lockstep/measure/robust.h"
#include "lockstep/measure/step_times.h"

namespace lockstep::measure {
namespace {

/// Squared t values beyond which a change is named, set by trial so that about 1 settled series in 1,000 is
/// named at correlations up to 0.7 (docs/measuring.md has the table); short series need more.
double shift_threshold(double n) {
  return 25 + 300 / n;
}
double trend_threshold(double n) {
  return 14 + 600 / n;
}

struct ShiftFinding {
  LevelShift shift;
  double explained = 0;
};

/// Looks at steps [first, end) of the series.
std::optional<ShiftFinding> shift_in(std::span<const double> step_s, std::span<const double> scores,
                                     size_t first, size_t end) {
  const size_t n = end - first;
  const ChangeStatistic found = level_shift_statistic(scores.subspan(first, n), std::max<size_t>(5, n / 20));
  if (found.squared_t < shift_threshold(static_cast<double>(n))) return std::nullopt;
  ShiftFinding finding;
  finding.shift.step = first + found.at;
  finding.shift.before = median_of(step_s.subspan(first, found.at));
  finding.shift.after = median_of(step_s.subspan(first + found.at, n - found.at));
  finding.explained = found.explained;
  if (!(std::abs(finding.shift.after - finding.shift.before) > kMaterialChange * finding.shift.before)) {
    return std::nullopt;
  }
  return finding;
}

/// The whole series first; then overlapping halves, where a passing phase stands out that the whole averages
/// away.
std::optional<ShiftFinding> find_shift(std::span<const double> step_s, std::span<const double> scores) {
  const size_t n = step_s.size();
  if (auto found = shift_in(step_s, scores, 0, n)) return found;
  if (n < 4 * kMinForDiagnosis) return std::nullopt;
  std::optional<ShiftFinding> best;
  for (const size_t first : {size_t{0}, n / 4, n / 2}) {
    auto found = shift_in(step_s, scores, first, std::min(first + n / 2, n));
    if (found && (!best || found->explained > best->explained)) best = found;
  }
  return best;
}

/// The change from first to last step by the median slope between the medians of up to 40 blocks (Theil 1950,
/// Sen 1968).
double robust_change(std::span<const double> step_s) {
  const size_t n = step_s.size();
  const size_t blocks = std::min<size_t>(40, n);
  std::vector<double> place(blocks);
  std::vector<double> level(blocks);
  for (size_t b = 0; b < blocks; ++b) {
    const size_t first = b * n / blocks;
    const size_t end = (b + 1) * n / blocks;
    place[b] = 0.5 * static_cast<double>(first + end - 1);
    level[b] = median_of(step_s.subspan(first, end - first));
  }
  std::vector<double> slopes;
  for (size_t a = 0; a < blocks; ++a) {
    for (size_t b = a + 1; b < blocks; ++b) slopes.push_back((level[b] - level[a]) / (place[b] - place[a]));
  }
  return slopes.empty() ? 0 : median_of(slopes) * static_cast<double>(n - 1);
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
  diagnosis.effective_steps = static_cast<double>(step_s.size());
  if (step_s.size() >= kMinForDiagnosis) {
    const std::vector<double> scores = normal_scores(step_s);
    const auto n = static_cast<double>(step_s.size());
    const ChangeStatistic line = trend_statistic(scores);
    Trend trend;
    trend.change_share = diagnosis.median > 0 ? robust_change(step_s) / diagnosis.median : 0;
    trend.p = student_t_two_sided_p(std::sqrt(line.squared_t), n - 3);
    const bool rises = line.squared_t > trend_threshold(n) && std::abs(trend.change_share) > kMaterialChange;
    const auto shift = find_shift(step_s, scores);
    if (shift && (!rises || shift->explained > line.explained)) {
      diagnosis.level_shift = shift->shift;
    } else if (rises) {
      diagnosis.trend = trend;
    }
    const LongRunVariance memory = long_run_variance(scores);
    diagnosis.lag_one = memory.lag_one;
    diagnosis.integrated_time = memory.integrated_time();
    if (diagnosis.integrated_time > 0) diagnosis.effective_steps = std::min(n, n / diagnosis.integrated_time);
  }
  diagnosis.outliers = find_outliers(step_s, diagnosis.level_shift, diagnosis.median);
  return diagnosis;
}

std::string SeriesDiagnosis::text() const {
  std::vector<std::string> parts;
  if (level_shift) {
    parts.push_back(fmt::format("level shift at step {}: from {:.4g} ms to {:.4g} ms ({:+.1f} %)",
                                level_shift->step, level_shift->before * 1e3, level_shift->after * 1e3,
                                level_shift->change_share() * 100));
  }
  if (trend) {
    parts.push_back(fmt::format("trend: the step time {} by {:.1f} % from first to last step",
                                trend->change_share > 0 ? "rises" : "falls",
                                std::abs(trend->change_share) * 100));
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
