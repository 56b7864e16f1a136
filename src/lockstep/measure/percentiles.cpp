#include "lockstep/measure/percentiles.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/measure/series.h"

namespace lockstep::measure {

double percentile_of_sorted(std::span<const double> sorted, double p) {
  if (sorted.empty()) throw Error(fmt::format("p{} of no samples", p));
  if (!(p >= 0 && p <= 100)) throw Error(fmt::format("percentile {} is not between 0 and 100", p));
  return value_at_place(sorted, p / 100 * static_cast<double>(sorted.size() - 1));
}

double percentile(std::span<const double> samples, double p) {
  // A NaN compares with nothing and would leave the order, and so the result, to chance.
  if (std::ranges::any_of(samples, [](double sample) { return std::isnan(sample); })) {
    throw Error(fmt::format("p{} of {} samples, one of which is not a number", p, samples.size()));
  }
  return percentile_of_sorted(sorted_copy(samples), p);
}

int samples_needed(double p) {
  if (p <= 50) return 1;
  // 1 / (1 - 0.9) is a little over 10 in binary; the small amount keeps it from becoming 11.
  return static_cast<int>(std::ceil(100 / (100 - p) - 1e-9));
}

StepPercentiles step_percentiles(std::span<const double> step_s) {
  const auto supported = [&](double p) -> std::optional<double> {
    if (step_s.size() < static_cast<size_t>(samples_needed(p))) return std::nullopt;
    return percentile(step_s, p);
  };
  return {supported(50), supported(75), supported(90), supported(95), supported(99)};
}

StepPercentiles step_percentiles(const std::vector<std::vector<double>>& launches) {
  const auto mean = [&](double p) -> std::optional<double> {
    double logs = 0;
    int count = 0;
    for (const std::vector<double>& launch : launches) {
      if (launch.empty()) continue;
      if (launch.size() < static_cast<size_t>(samples_needed(p))) return std::nullopt;
      logs += std::log(percentile(launch, p));
      ++count;
    }
    if (count == 0) return std::nullopt;
    return std::exp(logs / count);
  };
  return {mean(50), mean(75), mean(90), mean(95), mean(99)};
}

}  // namespace lockstep::measure
