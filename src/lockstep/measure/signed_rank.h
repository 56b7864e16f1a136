#pragma once

#include <span>

namespace lockstep::measure {

/// The middle of values that are spread alike on both sides of it, without an assumption on how: an outlier
/// counts as one value, however far it is.
struct SignedRank {
  /// Median of the averages of all pairs of values, each value with itself among them (Hodges and Lehmann
  /// 1963).
  double estimate = 0;
  /// Interval of at least the given confidence, from the exact distribution of Wilcoxon's signed-rank
  /// statistic (Conover, Practical Nonparametric Statistics, 5.7).
  double lower = 0;
  double upper = 0;
  /// Two-sided, of the middle being 0; at most 1 - confidence exactly where the interval excludes 0.
  double p = 1;
};

/// Takes at least one value. The interval has no ends where even values of one sign, being so few, could not
/// be told from 0. Takes O(n^3) time for n values.
SignedRank signed_rank(std::span<const double> values, double confidence);

}  // namespace lockstep::measure
