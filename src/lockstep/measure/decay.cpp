#include "lockstep/measure/decay.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::measure {
namespace {

/// Half way from kHigh to kLow, for a decay.
constexpr double kMiddle = 4;

double running_median(std::span<const double> values, size_t at) {
  const size_t reach = std::min({size_t{2}, at, values.size() - 1 - at});
  std::array<double, 5> window{};
  const size_t count = 2 * reach + 1;
  for (size_t i = 0; i < count; ++i) window[i] = values[at - reach + i];
  std::nth_element(window.begin(), window.begin() + reach, window.begin() + count);
  return window[reach];
}

}  // namespace

double Decay::harmless_from(double count, double effective) const {
  // Sum of the tail from step s on: kLow * constant * exp(-(s - low_step) / constant); half a standard error
  // of the sum of `count` values with variance 1: count / (2 * sqrt(effective)).
  const double ratio = 2 * kLow * constant * std::sqrt(effective) / count;
  return ratio > 1 ? low_step + constant * std::log(ratio) : low_step;
}

std::optional<Decay> find_decay(std::span<const double> deviations, size_t within) {
  const size_t end = std::min(within, deviations.size());
  size_t high = end;
  size_t middle = end;
  size_t low = end;
  for (size_t at = end; at-- > 0;) {
    const double here = running_median(deviations, at);
    if (low == end && here > Decay::kLow) low = at;
    if (middle == end && here > kMiddle) middle = at;
    if (here > Decay::kHigh) {
      high = at;
      break;
    }
  }
  if (high == end) return std::nullopt;
  double height = Decay::kHigh;
  for (size_t at = 0; at <= high; ++at) height = std::max(height, running_median(deviations, at));
  Decay decay;
  // Three readings of the constant, the smallest counts: between the two heights; over its second half only,
  // since a warm-up on one level may touch kHigh by chance anywhere but ends at once; and over the whole
  // fall, which is the least uncertain for a decay from the first step on.
  const auto fall = [](double steps, double from, double to) { return steps / std::log(from / to); };
  decay.constant = std::min({fall(static_cast<double>(low - high), Decay::kHigh, Decay::kLow),
                             1.5 * fall(static_cast<double>(low - middle), kMiddle, Decay::kLow),
                             1.2 * fall(static_cast<double>(low + 1), height, Decay::kLow)});
  decay.low_step = static_cast<double>(low + 1);
  return decay;
}

}  // namespace lockstep::measure
