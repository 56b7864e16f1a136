#include "lockstep/predict/jobs/own_noise.h"

#include <algorithm>
#include <cmath>

#include "lockstep/measure/series.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/summarize.h"

namespace lockstep::predict {
namespace {

using results::Run;

/// As shares of the mean, with mean 0; empty for too few.
std::vector<double> deviations(const std::vector<double>& values) {
  constexpr size_t kFewest = 4;
  if (values.size() < kFewest || !std::ranges::all_of(values, [](double s) { return std::isfinite(s); }))
    return {};
  const double mean = measure::mean_of(values);
  if (!(mean > 0)) return {};
  std::vector<double> shares;
  for (const double value : values) shares.push_back(value / mean - 1);
  return shares;
}

std::vector<double> computing_series(const results::RankBreakdown& rank) {
  std::vector<double> series = rank.series.step_s;
  for (size_t i = 0; i < series.size(); ++i) {
    if (i < rank.series.waiting_s.size()) series[i] -= rank.series.waiting_s[i];
    if (i < rank.series.transfer_s.size()) series[i] -= rank.series.transfer_s[i];
  }
  return series;
}

/// Mean correlation of the ranks' steps, from 0 to 1.
double common_share(const std::vector<std::vector<double>>& ranks) {
  double both = 0, own = 0;
  for (size_t a = 0; a < ranks.size(); ++a) {
    for (size_t b = 0; b < ranks.size(); ++b) {
      const size_t steps = std::min(ranks[a].size(), ranks[b].size());
      for (size_t i = 0; i < steps; ++i) (a == b ? own : both) += ranks[a][i] * ranks[b][i];
    }
  }
  const double pairs = static_cast<double>(ranks.size() - 1);
  return own > 0 ? std::clamp(both / pairs / own, 0.0, 1.0) : 0;
}

std::vector<double> times(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

}  // namespace

StepNoise own_noise(const results::RunRecord& record, const Run& run) {
  std::vector<std::vector<double>> ranks;
  if (run.breakdown && run.ranks > 1) {
    for (const results::RankBreakdown& rank : run.breakdown->ranks) {
      if (std::vector<double> shares = deviations(computing_series(rank)); !shares.empty())
        ranks.push_back(std::move(shares));
    }
  }
  if (ranks.size() < 2) {
    const Run* single = results::single_of(record, run);
    return {Spread(deviations(results::representative_steps(single == nullptr ? run : *single))), Spread()};
  }
  std::vector<double> all;
  for (const std::vector<double>& shares : ranks) all.insert(all.end(), shares.begin(), shares.end());
  const double common = common_share(ranks);
  const bool one_host = run.hosts == 1;
  return {Spread(times(all, std::sqrt(1 - common))),
          one_host && common > 0 ? Spread(times(all, std::sqrt(common))) : Spread()};
}

}  // namespace lockstep::predict
