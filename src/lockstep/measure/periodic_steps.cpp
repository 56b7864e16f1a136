#include "lockstep/measure/periodic_steps.h"

#include <algorithm>

#include "lockstep/measure/distributions.h"

namespace lockstep::measure {
namespace {

/// A step that takes so many times as long as its neighbors is another kind of step.
constexpr double kLong = 1.3;
/// Neighbors on either side.
constexpr size_t kNeighbors = 5;
/// The share of the steps in their turn that must be long, and the fewest of them: two have some distance in
/// any case.
constexpr double kRegular = 0.6;
constexpr int kFewest = 3;
constexpr double kChance = 0.01;
/// Of a distance and its multiples, the longest that has this share of the time is the one.
constexpr double kSameSteps = 0.8;

/// The lower median of the steps around step i, of which every second one may be long.
double usual_s(const std::vector<double>& step_s, size_t i) {
  std::vector<double> around;
  for (size_t j = i - std::min(i, kNeighbors); j < std::min(step_s.size(), i + kNeighbors + 1); ++j) {
    if (j != i) around.push_back(step_s[j]);
  }
  const auto middle = around.begin() + (std::ssize(around) - 1) / 2;
  std::ranges::nth_element(around, middle);
  return *middle;
}

}  // namespace

std::optional<PeriodicSteps> find_periodic_steps(const std::vector<double>& step_s,
                                                 const std::vector<size_t>& numbers) {
  const size_t steps = step_s.size(), most_apart = steps / kFewest;
  std::vector<double> longer_s(steps, 0);
  // A training begins slowly.
  bool began = false;
  for (size_t i = 0; i < steps && most_apart > 1; ++i) {
    const double usual = usual_s(step_s, i);
    const bool is_long = step_s[i] >= kLong * usual;
    if (is_long && began) longer_s[i] = step_s[i] - usual;
    began = began || !is_long;
  }
  const auto all_long = static_cast<int>(steps) - static_cast<int>(std::ranges::count(longer_s, 0));
  std::optional<PeriodicSteps> best;
  double most_s = 0;
  // As many turns are looked at.
  const double limit = kChance / (static_cast<double>(most_apart * (most_apart + 1)) / 2);
  for (size_t apart = 2; apart <= most_apart; ++apart) {
    std::vector<int> in_turn(apart, 0), count(apart, 0);
    std::vector<double> sum_s(apart, 0);
    for (size_t i = 0; i < steps; ++i) {
      const size_t turn = numbers[i] % apart;
      ++in_turn[turn];
      count[turn] += longer_s[i] > 0 ? 1 : 0;
      sum_s[turn] += longer_s[i];
    }
    for (size_t turn = 0; turn < apart; ++turn) {
      if (count[turn] < kFewest || count[turn] < kRegular * in_turn[turn]) continue;
      // Chance makes as large a share of the other steps long, or one step more.
      const double share = (all_long - count[turn] + 1.0) / (static_cast<int>(steps) - in_turn[turn] + 1.0);
      const double chance = binomial_upper_tail(count[turn], in_turn[turn], std::min(1.0, share));
      if (chance >= limit || sum_s[turn] < kSameSteps * most_s) continue;
      most_s = std::max(most_s, sum_s[turn]);
      best = PeriodicSteps{apart, count[turn], sum_s[turn] / count[turn]};
    }
  }
  return best;
}

}  // namespace lockstep::measure
