#include "lockstep/measure/signed_rank.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "lockstep/base/assert.h"

namespace lockstep::measure {
namespace {

/// Averages of all pairs of values, ascending.
std::vector<double> pair_averages(std::span<const double> values) {
  std::vector<double> averages;
  averages.reserve(values.size() * (values.size() + 1) / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = i; j < values.size(); ++j) averages.push_back(0.5 * (values[i] + values[j]));
  }
  std::ranges::sort(averages);
  return averages;
}

/// P(T <= t) for t from 0 to half of the greatest: T is the sum of those of the ranks 1 to `count` that fair
/// coins choose.
std::vector<double> lower_half(size_t count) {
  std::vector<double> chances(count * (count + 1) / 4 + 1);
  chances[0] = 1;
  for (size_t rank = 1; rank <= count; ++rank) {
    for (size_t sum = chances.size(); sum-- > 0;)
      chances[sum] = 0.5 * (chances[sum] + (sum >= rank ? chances[sum - rank] : 0));
  }
  for (size_t sum = 1; sum < chances.size(); ++sum) chances[sum] += chances[sum - 1];
  return chances;
}

}  // namespace

SignedRank signed_rank(std::span<const double> values, double confidence) {
  LOCKSTEP_ASSERT(!values.empty());
  const std::vector<double> averages = pair_averages(values);
  const std::vector<double> chances = lower_half(values.size());
  const size_t count = averages.size();
  // As many averages on each side are not in the interval.
  size_t outside = 0;
  while (outside < chances.size() && 2 * chances[outside] <= 1 - confidence) ++outside;
  constexpr double kEndless = std::numeric_limits<double>::infinity();
  const auto not_below =
      static_cast<size_t>(std::ranges::count_if(averages, [](double one) { return one >= 0; }));
  const auto not_above =
      static_cast<size_t>(std::ranges::count_if(averages, [](double one) { return one <= 0; }));
  const size_t statistic = std::min(not_below, not_above);
  return {.estimate = 0.5 * (averages[(count - 1) / 2] + averages[count / 2]),
          .lower = outside > 0 ? averages[outside - 1] : -kEndless,
          .upper = outside > 0 ? averages[count - outside] : kEndless,
          .p = statistic < chances.size() ? std::min(1.0, 2 * chances[statistic]) : 1.0};
}

}  // namespace lockstep::measure
