#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace lockstep::measure {

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

}  // namespace lockstep::measure
