#pragma once

#include <span>
#include <vector>

namespace lockstep::measure {

// Building blocks of the statistics of one series of numbers.

/// Throws Error, with the step and the value, for a time that is not a number, infinite or negative. Zero
/// passes: a coarse clock yields it.
void require_step_times(std::span<const double> step_s);

/// Natural logarithms; a time below a nanosecond counts as one.
double logarithm(double step_s);
std::vector<double> logarithms(std::span<const double> step_s);

/// A copy in rising order.
std::vector<double> sorted_copy(std::span<const double> values);

/// The value at a place between 0 and n - 1 of a rising series, interpolated linearly between neighbors; a
/// place outside yields the nearest end. `sorted` must not be empty.
double value_at_place(std::span<const double> sorted, double place);

/// The median; 0 without values.
double median_of(std::span<const double> values);

double mean_of(std::span<const double> values);

/// The sum of squared distances from the mean.
double squared_deviations(std::span<const double> values);

/// Location and width of a series, hardly moved by outliers.
struct RobustScale {
  double median = 0;
  /// 1.4826 times the median absolute deviation: the standard deviation where the series is normal. The
  /// mean absolute deviation (scaled likewise) stands in when half of the values are equal.
  double deviation = 0;
};
RobustScale robust_scale(std::span<const double> values);

/// The normal scores of a series: each value replaced by the normal quantile of (rank - 1/2) / n (Hazen's
/// plotting positions, where van der Waerden's have rank / (n + 1)), ties by their mean rank. Statistics of
/// scores depend neither on the shape of the distribution nor on how far out an outlier lies.
std::vector<double> normal_scores(std::span<const double> values);

}  // namespace lockstep::measure
