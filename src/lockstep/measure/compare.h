#pragma once

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
  /// The quantile that is compared: 0.5 the median, 0.75 p75, ...
  double quantile = 0.5;
  double confidence = 0.95;
  /// Changes smaller than this share of the base's time are no regression, however certain.
  double threshold = 0.02;
  /// Launch i of the base ran next to launch i of the test (ABBA or in turn), so that they share what drifts.
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
  /// Two-sided; empty without an interval.
  std::optional<double> p;
  /// `p` corrected for the number of rows (correct_for_rows); equal to it until then.
  std::optional<double> corrected_p;
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
  bool differs() const { return verdict == Verdict::kFaster || verdict == Verdict::kSlower; }
  /// Certain and larger than the threshold, over launches.
  bool is_regression() const;
  /// The verdict in words: "slower", or "slower within these launches" with one launch a side.
  std::string text() const;
};

/// Compares two sides of a row; each a vector of launches, each the steady step times of one launch in order.
///
/// With two launches or more on both sides the launch is the unit: the logarithms of their quantiles in
/// Welch's t test (1947), or in a paired t test when `paired` and there are three pairs or more (two pairs in
/// ABBA order are balanced already, and one degree of freedom finds nothing). From twelve pairs on the ranks
/// of the pairs' changes decide (signed_rank.h), because a launch that other work disturbed widens a t
/// interval for good; the ratio is then the middle of the pairs' ratios. Otherwise the intervals within the
/// launches decide, with `within_launches` set; a side with a trend or level shift then has none. The verdict
/// rests on the interval excluding 1; the threshold does not enter it.
Comparison compare(const std::vector<std::vector<double>>& base, const std::vector<std::vector<double>>& test,
                   const CompareOptions& options = {});

/// Corrects p-values so that the chance of any false one stays below the level for all together (Holm 1979).
std::vector<double> holm(std::span<const double> p);

/// Corrects the p of all rows that have one, and turns a "faster" or "slower" that no longer holds into "same
/// within noise".
void correct_for_rows(std::vector<Comparison>& rows);

}  // namespace lockstep::measure
