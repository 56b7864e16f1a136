#include "lockstep/measure/modes.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "lockstep/measure/series.h"

namespace lockstep::measure {
namespace {

constexpr size_t kFewestSamples = 40;
constexpr double kLeastShare = 0.1;
constexpr double kLeastExplained = 0.8;
constexpr double kLeastRatio = 1.2;

}  // namespace

std::optional<TwoModes> two_modes(std::span<const double> samples) {
  const size_t count = samples.size();
  if (count < kFewestSamples) return std::nullopt;
  const std::vector<double> sorted = sorted_copy(samples);
  const std::vector<double> logs = logarithms(sorted);
  const double mean = mean_of(logs);
  const double total = squared_deviations(logs);
  if (!(total > 0)) return std::nullopt;
  const auto fewest = static_cast<size_t>(std::ceil(kLeastShare * static_cast<double>(count)));
  double sum = std::accumulate(logs.begin(), logs.begin() + static_cast<std::ptrdiff_t>(fewest), 0.0);
  size_t split = 0;
  double best = 0;
  for (size_t fast = fewest; fast <= count - fewest; sum += logs[fast++]) {
    // Variance between the groups: n1 (m1 - m)^2 + n2 (m2 - m)^2, with n1 (m1 - m) = -n2 (m2 - m).
    const double n = static_cast<double>(fast);
    const double pull = sum - n * mean;
    const double between = pull * pull * (1 / n + 1 / static_cast<double>(count - fast));
    if (between > best) best = between, split = fast;
  }
  if (best < kLeastExplained * total) return std::nullopt;
  const std::span<const double> all(sorted);
  const TwoModes found{median_of(all.first(split)), median_of(all.subspan(split)),
                       static_cast<double>(count - split) / static_cast<double>(count)};
  return found.slow >= kLeastRatio * found.fast ? std::optional(found) : std::nullopt;
}

}  // namespace lockstep::measure
