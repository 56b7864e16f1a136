#include "lockstep/predict/jobs/known_values.h"

#include <algorithm>

namespace lockstep::predict {
namespace {

/// Share of computing that does not shrink with the batch, where one batch was measured.
constexpr double kFixedShare = 0.1;

}  // namespace

double value_at(const std::vector<KnownValue>& known, double x) {
  if (known.size() == 1) return known.front().value;
  auto above = std::ranges::upper_bound(known, x, {}, &KnownValue::at);
  const bool beyond = above == known.end() || above == known.begin();
  if (above == known.end()) --above;
  if (above == known.begin()) ++above;
  const KnownValue &low = *(above - 1), &high = *above;
  const double slope = high.at > low.at ? (high.value - low.value) / (high.at - low.at) : 0;
  if (!beyond) return low.value + slope * (x - low.at);
  const KnownValue& end = x < low.at ? low : high;
  return end.value + std::max(0.0, slope) * (x - end.at);
}

double time_of_batch(const std::vector<KnownValue>& known, double batch) {
  if (known.size() > 1) return std::max(value_at(known, batch), kFixedShare * known.front().value);
  return known.front().value * (kFixedShare + (1 - kFixedShare) * batch / known.front().at);
}

}  // namespace lockstep::predict
