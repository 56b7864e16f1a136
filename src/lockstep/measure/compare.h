#pragma once

#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/measure/interval.h"

namespace lockstep::measure {

enum class Verdict { kFaster, kSlower, kSame, kNotEnoughData };

/// "faster", "slower", "same within noise", "not enough data".
std::string_view verdict_text(Verdict verdict);

struct CompareOptions {
  /// The quantile that is compared: 0.5 the median, 0.75 p75, ...; empty: the mean.
  std::optional<double> quantile = 0.5;
  double confidence = 0.95;
  /// Changes smaller than this share of the base's time are no regression, however certain.
  double threshold = 0.02;
  /// Launch i of the base ran next to launch i of the test (ABBA or in turn), so that drift affects both
  /// alike.
  bool paired = false;
};

/// One row of a comparison of step times.
struct Comparison {
  double base_s = 0;
  double test_s = 0;
  /// test / base of the time: above 1 is slower.
  double ratio = 1;
  /// Interval of `ratio`; empty for the `reason` given.
  std::optional<Interval> ratio_interval;
  /// Two-sided, of this row alone; empty without an interval.
  std::optional<double> p;
  Verdict verdict = Verdict::kNotEnoughData;
  /// Explains "not enough data": which side lacks it, and why.
  std::string reason;
  /// One side has a single launch, so the interval does not cover variation between launches: the most that
  /// can be said is that these launches differ.
  bool within_launches = false;
  CompareOptions options;

  /// As PyTorch's diff.py: -100 * (test - base) / base of the time; positive is faster.
  double change_percent() const { return -100 * (ratio - 1); }
  /// The interval of change_percent(), lower end first.
  std::optional<Interval> change_percent_interval() const;
  /// Whether `ratio` is the median of the pairs' ratios, which need not be the quotient of the two times.
  bool is_of_pairs() const { return std::abs(ratio * base_s - test_s) > 1e-9 * test_s; }
  bool differs() const { return verdict == Verdict::kFaster || verdict == Verdict::kSlower; }
  /// Certain and larger than the threshold, over launches.
  bool is_regression() const;
};

/// Compares two sides of a row; each a vector of launches, each the steady step times of one launch in order.
///
/// With two launches or more on both sides the launch is the unit: the logarithms of their quantiles in
/// Welch's t test (1947), or in a paired t test when `paired` and there are three pairs or more (two pairs in
/// ABBA order are balanced already, and one degree of freedom finds nothing). From twelve pairs on the ranks
/// of the pairs' changes decide (signed_rank()), because a launch that other work disturbed widens a t
/// interval for good; the ratio is then the middle of the pairs' ratios. Otherwise the intervals within the
/// launches decide, with `within_launches` set; a side with a trend or level shift then has none. The verdict
/// rests on the interval excluding 1; the threshold does not enter it.
Comparison compare(const std::vector<std::vector<double>>& base, const std::vector<std::vector<double>>& test,
                   const CompareOptions& options = {});

/// Corrects p-values so that the chance of any false one stays below the level for all together (Holm 1979).
std::vector<double> holm(std::span<const double> p);

/// Turns a "faster" or "slower" that does not hold for all rows together, by holm(), into "same within
/// noise".
void correct_for_rows(std::vector<Comparison>& rows);

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

/// The looks at a comparison that runs until it is certain: after which launches, and with which confidence.
///
/// Launches come in pairs (base, test, then test, base: ABBA, so that a steady drift cancels in every two
/// pairs). Looking after each pair with the usual 95 % would find a difference between equals sooner or
/// later. So the looks are few and fixed beforehand (4, 6, 8, 12, 16, 24, 32, ... pairs, and the last). The
/// last one, which decides where launches differ much, may err with half of 5 %; those before it share the
/// other half equally. By Bonferroni's inequality all intervals hold together with 95 % or more (repeated
/// confidence intervals: Jennison and Turnbull 1984), so the one that ends the comparison does.
class LookPlan {
 public:
  /// At most `most_pairs` pairs, at least 2.
  explicit LookPlan(size_t most_pairs);

  /// Numbers of pairs at which to look, ascending; the last is most_pairs.
  const std::vector<size_t>& looks() const { return looks_; }
  bool is_look(size_t pairs) const;
  /// The confidence of the intervals of a look: of one before the last, or of the last one. An early end,
  /// by time or by the user, is followed by a look with the confidence of the last.
  double confidence_of_look(bool last) const;

 private:
  std::vector<size_t> looks_;
};

enum class Certainty {
  /// Neither of the two below; more launches may decide.
  kOpen,
  /// The interval excludes "no change".
  kDiffers,
  /// The interval lies within the threshold on both sides.
  kBelowThreshold
};

/// The certainty that a look finds: `row` was compared with LookPlan::confidence_of_look(). A difference that
/// is certain counts as such, however small.
Certainty certainty_of(const Comparison& row);

}  // namespace lockstep::measure
