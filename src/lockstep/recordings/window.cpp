#include "lockstep/recordings/window.h"

#include <algorithm>

#include "lockstep/measure/interval.h"

namespace lockstep::recordings {
namespace {

/// Steps before the window in which the recorder tries the profiler and starts it.
constexpr int64_t kBefore = 3;
/// Steps after it in which the recorder stops the profiler.
constexpr int64_t kAfter = 1;

/// Times of the steps whose index `counts`.
template <typename Counts>
std::vector<double> steps_where(const RankFile& file, Counts counts) {
  std::vector<double> step_s;
  for (size_t i = 1; i < file.step_end_s.size(); ++i) {
    if (counts(static_cast<int64_t>(i))) step_s.push_back(file.step_end_s[i] - file.step_end_s[i - 1]);
  }
  return step_s;
}

}  // namespace

std::vector<double> steps_outside(const RankFile& file) {
  return steps_where(file, [&](int64_t at) {
    return file.window.empty() || at < file.window[0] - kBefore || at > file.window[1] + kAfter;
  });
}

std::pair<int, int> steps_left_out(const RankFile& file) {
  if (file.window.empty()) return {0, 0};
  // The first step is not timed.
  const int64_t first = std::max<int64_t>(1, file.window[0] - kBefore);
  return {static_cast<int>(first - 1), static_cast<int>(file.window[1] + kAfter + 1 - first)};
}

std::vector<double> steps_inside(const RankFile& file) {
  return steps_where(
      file, [&](int64_t at) { return !file.window.empty() && at >= file.window[0] && at < file.window[1]; });
}

std::vector<double> longest_steps(const std::vector<std::vector<double>>& ranks) {
  std::vector<double> longest_s = ranks.front();
  for (const auto& rank : ranks) {
    for (size_t i = 0; i < longest_s.size(); ++i) longest_s[i] = std::max(longest_s[i], rank[i]);
  }
  return longest_s;
}

void assign_window_cost(results::Recorded& recorded, const std::vector<double>& inside_s,
                        const std::vector<double>& outside_s) {
  if (inside_s.empty() || outside_s.empty()) return;
  const measure::Estimate inside = measure::quantile_estimate(inside_s, 0.5);
  const measure::Estimate outside = measure::quantile_estimate(outside_s, 0.5);
  if (!(outside.value > 0)) return;
  recorded.window_cost = inside.value / outside.value;
  recorded.window_cost_interval = results::Interval{.missing = "not enough data"};
  if (!inside.interval || !outside.interval) return;
  const auto found =
      measure::ratio_interval({inside.value, inside.interval->lower, inside.interval->upper},
                              {outside.value, outside.interval->lower, outside.interval->upper});
  if (found)
    recorded.window_cost_interval =
        results::Interval{.low = found->lower, .high = found->upper, .missing = {}};
}

}  // namespace lockstep::recordings
