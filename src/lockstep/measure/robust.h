#pragma once

#include <span>
#include <vector>

namespace lockstep::measure {

/// A copy in rising order.
std::vector<double> sorted_copy(std::span<const double> values);

/// The value at a place between 0 and n - 1 of a rising series, straight lines between neighbours; places
/// outside are taken to the nearest end. `sorted` must not be empty.
double value_at_place(std::span<const double> sorted, double place);

/// The median; `values` must not be empty.
double median_of(std::span<const double> values);

double mean_of(std::span<const double> values);

/// Where a series lies and how wide it scatters, hardly moved by outliers.
struct RobustScale {
  double median = 0;
  /// 1.4826 times the median absolute deviation: the standard deviation where the series is normal. When half
  /// of the values are equal, the mean absolute deviation (scaled likewise) stands in.
  double deviation = 0;
};
RobustScale robust_scale(std::span<const double> values);

/// The normal scores of a series (van der Waerden 1952): each value replaced by the normal quantile of its
/// rank, ties by their mean rank. What is computed from scores depends neither on the shape of the
/// distribution nor on how far out an outlier lies.
std::vector<double> normal_scores(std::span<const double> values);

}  // namespace lockstep::measure
