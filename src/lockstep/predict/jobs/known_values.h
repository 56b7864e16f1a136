#pragma once

#include <vector>

namespace lockstep::predict {

/// A value of something that depends on a number: time on the batch, slowdown on the ranks that share a host.
struct KnownValue {
  double at = 0;
  double value = 0;
};

/// The value at `x`: linear between known ones (ascending in `at`, at least one) and beyond two or more of
/// them, with the slope of the outermost, at least 0.
double value_at(const std::vector<KnownValue>& known, double x);

/// The time of a batch by those of known ones: as value_at(), from a single one with a tenth of it fixed; at
/// least a tenth of the smallest one's.
double time_of_batch(const std::vector<KnownValue>& known, double batch);

}  // namespace lockstep::predict
