#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/base/fields.h"

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

// Quantiles and tails of the distributions that intervals and tests rest on, from Boost.Math.

/// The x below which a standard normal value lies with `probability`; infinite for 0 and 1.
double normal_quantile(double probability);

/// The t below which a value of Student's t distribution lies with `probability`; infinite for 0 and 1.
/// `degrees` of freedom > 0, a fraction is allowed.
double student_t_quantile(double probability, double degrees);

/// P(|T| >= |t|): the two-sided p-value of a t statistic.
double student_t_two_sided_p(double t, double degrees);

/// The probability of `count` > 0 successes or more in `trials` of which each has `probability`, from 0 to 1.
double binomial_upper_tail(int count, int trials, double probability);

/// Two levels that samples gather around, as where some messages wait for a timer and others do not.
struct TwoModes {
  /// Medians of the two groups, in the samples' unit.
  double fast = 0;
  double slow = 0;
  /// Share of the samples in the slower group.
  double slow_share = 0;
};

/// Splits positive samples into two groups where the split explains most of the variance of their logarithms
/// (Otsu 1979). Empty unless it explains 80 % (75 % for a flat distribution, 64 % for a normal one), the
/// groups' medians are a fifth apart, and each group has a tenth of the samples, of 40 at least.
std::optional<TwoModes> two_modes(std::span<const double> samples);

/// Steps that take longer, and come in regular distances.
struct PeriodicSteps {
  /// Steps from one to the next.
  size_t apart = 0;
  int count = 0;
  /// By how much one takes longer than its neighbors, mean.
  double longer_s = 0;
};

/// Finds the distance and the turn of which more steps are a third longer than their neighbors than chance
/// finds once in 100 series; of several, the longest distance that holds most of the additional time.
/// `numbers`: those of the steps in the training, ascending; some may be missing.
std::optional<PeriodicSteps> find_periodic_steps(const std::vector<double>& step_s,
                                                 const std::vector<size_t>& numbers);

/// The p-th percentile (0..100) of samples in any order: linear interpolation between the two closest ranks,
/// at position p/100 * (n-1) of the sorted samples counted from 0 (type 7 of Hyndman and Fan, NumPy's
/// default). Throws Error for no samples, for a p out of range and for a sample that is not a number.
double percentile(std::span<const double> samples, double p);

/// The same for samples that are sorted already, ascending.
double percentile_of_sorted(std::span<const double> sorted, double p);

/// Samples that a percentile needs before it says more than "the largest one": 1 for p50, 4 for p75, 10
/// for p90, 20 for p95, 100 for p99; in general one sample beyond the percentile, 1 / (1 - p/100), rounded
/// up.
int samples_needed(double p);

/// Percentiles of the step time, in seconds; empty where there are too few steps.
struct StepPercentiles {
  std::optional<double> p50, p75, p90, p95, p99;

  LOCKSTEP_DESCRIBE(kOptional, p50, p75, p90, p95, p99)
};

/// All percentiles that the number of samples supports; all empty without samples.
StepPercentiles step_percentiles(std::span<const double> step_s);

/// The same over launches: the geometric mean of the launches' percentiles, as quantile_estimate() and
/// compare() have it, so that no launch counts more for its number of steps. Empty where a launch has too few
/// steps; launches without steps are left out.
StepPercentiles step_percentiles(const std::vector<std::vector<double>>& launches);

}  // namespace lockstep::measure
