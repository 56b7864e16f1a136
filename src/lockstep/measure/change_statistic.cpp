#include "lockstep/measure/change_statistic.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lockstep/measure/long_run_variance.h"
#include "lockstep/measure/robust.h"

namespace lockstep::measure {
namespace {

constexpr int kRounds = 3;
constexpr double kLargestLagOne = 0.97;
/// Less than any threshold in use.
constexpr double kNeverNamed = 9;

/// Sums of a two-column regression (constant, change) after each value's share of its predecessor is taken
/// out.
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

Fit best_shift(std::span<const double> y, double lag_one, size_t margin) {
  const size_t n = y.size();
  Sums sums;
  sums.n = static_cast<double>(n - 1);
  for (size_t i = 1; i < n; ++i) {
    const double value = y[i] - lag_one * y[i - 1];
    sums.y += value;
    sums.yy += value * value;
  }
  // From the back: `after` is the sum of whitened values behind the first of the new level.
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

Fit line(std::span<const double> y, double lag_one) {
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

double sum_of_squares(std::span<const double> values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum;
}

/// Fits the change and the correlation of what remains in turn.
template <typename FitChange, typename Change>
ChangeStatistic statistic(std::span<const double> values, int fitted, const FitChange& fit_change,
                          const Change& change) {
  double lag_one = 0;
  Fit fit;
  std::vector<double> rest(values.begin(), values.end());
  for (int round = 0; round < kRounds; ++round) {
    fit = fit_change(lag_one);
    const double slope = fit.sums.slope();
    for (size_t i = 0; i < values.size(); ++i) rest[i] = values[i] - slope * change(fit, i);
    const double next = std::clamp(corrected_lag_one(rest, fitted), 0.0, kLargestLagOne);
    if (round + 1 < kRounds) lag_one = next;
  }
  ChangeStatistic result;
  result.at = fit.at;
  result.squared_t = fit.sums.squared_t();
  const double all = sum_of_squares(values);
  result.explained = all > 0 ? 1 - sum_of_squares(rest) / all : 0;

  // Errors of a longer memory than the regression knows of; costly, so only where it can matter.
  if (result.squared_t < kNeverNamed) return result;
  std::vector<double> errors(rest.size() - 1);
  for (size_t i = 1; i < rest.size(); ++i) errors[i - 1] = rest[i] - lag_one * rest[i - 1];
  const LongRunVariance memory = long_run_variance(errors);
  if (memory.single > 0) result.squared_t /= std::max(1.0, memory.value / memory.single);
  return result;
}

}  // namespace

ChangeStatistic level_shift_statistic(std::span<const double> values, size_t margin) {
  return statistic(
      values, 2, [&](double lag_one) { return best_shift(values, lag_one, margin); },
      [](const Fit& fit, size_t i) { return i >= fit.at ? 1.0 : 0.0; });
}

ChangeStatistic trend_statistic(std::span<const double> values) {
  return statistic(
      values, 2, [&](double lag_one) { return line(values, lag_one); },
      [](const Fit&, size_t i) { return static_cast<double>(i); });
}

}  // namespace lockstep::measure
