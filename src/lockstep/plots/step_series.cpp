#include "lockstep/plots/step_series.h"

#include <algorithm>
#include <cmath>

#include "lockstep/results/record/summarize.h"

namespace lockstep::plots {
namespace {

std::vector<double> finite(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value) || value < 0; });
  return values;
}

bool is_filled(const std::vector<double>& ranks) {
  return !ranks.empty();
}

}  // namespace

StepSeries step_series(const results::Run& run) {
  StepSeries series;
  // A step without any rank (a damaged file) has no time.
  if (!run.samples.empty() && std::ranges::all_of(run.samples, is_filled)) {
    series.measured_s = finite(results::representative_steps(run));
  }
  if (!run.warmup_samples.empty() && std::ranges::all_of(run.warmup_samples, is_filled)) {
    series.warmup_s = finite(results::per_step_maxima(run.warmup_samples));
  }
  return series;
}

std::vector<Sample> thinned(std::span<const double> values, size_t bins, double first) {
  std::vector<Sample> samples;
  const auto add = [&](size_t i) { samples.push_back({first + static_cast<double>(i), values[i]}); };
  if (values.size() <= 2 * bins) {
    for (size_t i = 0; i < values.size(); ++i) add(i);
    return samples;
  }
  for (size_t bin = 0; bin < bins; ++bin) {
    const auto begin = values.begin() + bin * values.size() / bins;
    const auto end = values.begin() + (bin + 1) * values.size() / bins;
    const auto [least, most] = std::minmax_element(begin, end);
    const size_t a = std::min(least, most) - values.begin(), b = std::max(least, most) - values.begin();
    add(a);
    if (b != a) add(b);
  }
  return samples;
}

std::vector<double> histogram(std::span<const double> values, double low, double high, size_t bins) {
  std::vector<double> counts(bins, 0);
  for (double value : values) {
    if (!(value >= low && value <= high)) continue;
    const double share = high > low ? (value - low) / (high - low) : 0;
    counts[std::min(bins - 1, static_cast<size_t>(share * static_cast<double>(bins)))] += 1;
  }
  return counts;
}

}  // namespace lockstep::plots
