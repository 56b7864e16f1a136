#include "lockstep/results/record/layer_times.h"

#include <algorithm>

namespace lockstep::results {

double LayerTimes::gflop_per_s() const {
  return time_s() > 0 ? 2e-9 * static_cast<double>(multiply_adds + backward_multiply_adds) / time_s() : 0;
}

double LayerTimes::gb_per_s() const {
  return time_s() > 0 ? 1e-9 * static_cast<double>(bytes + backward_bytes) / time_s() : 0;
}

std::optional<double> LayerTimes::of_limit() const {
  if (!limit_forward_s || !limit_backward_s || time_s() <= 0) return std::nullopt;
  return (*limit_forward_s + *limit_backward_s) / time_s();
}

std::vector<const LayerTimes*> worst_first(const std::vector<LayerTimes>& layers) {
  std::vector<const LayerTimes*> sorted;
  for (const LayerTimes& layer : layers) sorted.push_back(&layer);
  std::ranges::stable_sort(sorted, [](const LayerTimes* a, const LayerTimes* b) {
    const bool multiplies = a->multiply_adds > 0;
    if (multiplies != (b->multiply_adds > 0)) return multiplies;
    return multiplies ? a->gflop_per_s() < b->gflop_per_s() : a->gb_per_s() < b->gb_per_s();
  });
  return sorted;
}

}  // namespace lockstep::results
