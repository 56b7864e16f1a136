#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lockstep/base/fields.h"

namespace lockstep::measure {

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
