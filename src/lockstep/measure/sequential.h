#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/measure/compare.h"

namespace lockstep::measure {

/// When a comparison that runs until it is certain is looked at, and how sure each look has to be.
///
/// Launches come in pairs (base, test, then test, base: ABBA, so that a steady drift cancels in every two
/// pairs). Looking after each pair with the usual 95 % would find a difference between equals sooner or
/// later. So the looks are few and fixed beforehand (4, 6, 8, 12, 16, 24, 32, ... pairs, and the last). The
/// last one, which decides where launches differ much, may err with half of 5 %; those before it share the
/// other half equally. By Bonferroni's inequality all intervals hold together with 95 % or more (repeated
/// confidence intervals: Jennison and Turnbull 1984), so the one that ends the comparison does.
class LookPlan {
 public:
  /// At most `most_pairs` pairs, at least 2; `confidence` of all looks together.
  explicit LookPlan(size_t most_pairs, double confidence = 0.95);

  /// Numbers of pairs at which to look, ascending; the last is most_pairs.
  const std::vector<size_t>& looks() const { return looks_; }
  bool is_look(size_t pairs) const;
  /// The confidence of the intervals of a look: of one before the last, or of the last one. A comparison that
  /// is ended early, by time or by its user, is looked at once more as for the last time.
  double confidence_of_look(bool last) const;

 private:
  std::vector<size_t> looks_;
  double confidence_;
};

enum class Certainty {
  /// Neither of the two below: more launches may tell.
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
