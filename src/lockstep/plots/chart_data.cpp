#include "lockstep/plots/chart_data.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "lockstep/results/record/summarize.h"

namespace lockstep::plots {
namespace {

/// A damaged file may hold any number.
std::vector<double> finite(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value) || value < 0; });
  return values;
}

/// Whether a step has a sample of any rank.
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
    // Both ends in the order in which they occurred, so that the line does not run backwards.
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

// Greedy interval scheduling: buckets by the time they are ready, each into the first lane that is free.
std::vector<size_t> bucket_lanes(const std::vector<results::BucketTimes>& buckets, size_t most) {
  std::vector<size_t> order(buckets.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return buckets[i].ready_s; });
  std::vector<size_t> lanes(buckets.size(), 0);
  std::vector<double> free_at;
  for (size_t i : order) {
    auto lane = std::ranges::find_if(free_at, [&](double end_s) { return end_s <= buckets[i].ready_s; });
    if (lane == free_at.end()) {
      if (free_at.size() < most) {
        lane = free_at.insert(free_at.end(), 0);
      } else {
        lane = std::ranges::min_element(free_at);
      }
    }
    *lane = std::max(*lane, buckets[i].ended_s);
    lanes[i] = lane - free_at.begin();
  }
  return lanes;
}

std::vector<size_t> chosen_ranks(const results::Breakdown& breakdown, size_t most) {
  const size_t all = breakdown.ranks.size();
  std::set<size_t> chosen;
  if (all <= most) {
    for (size_t i = 0; i < all; ++i) chosen.insert(i);
    return {chosen.begin(), chosen.end()};
  }
  const bool extra =
      breakdown.straggler && *breakdown.straggler >= 0 && static_cast<size_t>(*breakdown.straggler) < all;
  if (extra) chosen.insert(*breakdown.straggler);
  const size_t spread = std::max<size_t>(2, most - (extra ? 1 : 0));
  for (size_t i = 0; i < spread && chosen.size() < most; ++i) chosen.insert(i * (all - 1) / (spread - 1));
  return {chosen.begin(), chosen.end()};
}

}  // namespace lockstep::plots
