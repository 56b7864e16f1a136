#include "lockstep/results/tables/slow_rank.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "lockstep/measure/series.h"

namespace lockstep::results {
namespace {

using measure::median_of;
using measure::PhaseSeries;
using measure::RankBreakdown;
using Series = std::vector<double> PhaseSeries::*;

/// Communication runs beside the backward pass, and may take so much more of one rank's cores than of
/// another's. A slow device makes the forward pass longer by a similar share.
constexpr double kDisturbed = 0.2;
constexpr double kSimilar = 2;

constexpr const char* kDevice = "Compare that rank's device, its clock and its load with the others'.";

struct NamedPhase {
  const char* name;
  Series series;
  const char* advice;
};

constexpr std::array<NamedPhase, 4> kRankPhases{
    {{"input", &PhaseSeries::input_s,
      "Look at what that rank does before its first operation: its DataLoader's workers and disk, its "
      "samples."},
     {"forward pass", &PhaseSeries::forward_s,
      "Compare that rank's device and its samples with the others'."},
     {"backward pass", &PhaseSeries::backward_s, kDevice},
     {"optimizer", &PhaseSeries::optimizer_s, kDevice}}};

/// By their mean and three standard errors, or by the number of those above 0, which a few large ones cannot
/// hide.
bool is_beyond_chance(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double error = std::sqrt(measure::squared_deviations(values) / (count - 1) / count);
  const auto above = std::ranges::count_if(values, [](double value) { return value > 0; });
  return (count > 1 && measure::mean_of(values) > 3 * error) ||
         static_cast<double>(above) > count / 2 + 1.5 * std::sqrt(count);
}

/// Mean time of the others, in every step.
std::vector<double> others_s(const std::vector<RankBreakdown>& ranks, size_t place, Series phase) {
  std::vector<double> mean_s((ranks[place].series.*phase).size(), 0);
  for (const RankBreakdown& rank : ranks) {
    const std::vector<double>& own_s = rank.series.*phase;
    if (&rank == &ranks[place]) continue;
    for (size_t i = 0; i < std::min(mean_s.size(), own_s.size()); ++i)
      mean_s[i] += own_s[i] / static_cast<double>(ranks.size() - 1);
  }
  return mean_s;
}

void subtract(std::vector<double>& from, const std::vector<double>& values) {
  std::ranges::transform(from, values, from.begin(), std::minus());
}

}  // namespace

std::optional<SlowRank> find_slow_rank(const std::vector<RankBreakdown>& ranks) {
  if (ranks.size() < 2) return std::nullopt;
  const auto waits = [](const RankBreakdown& rank) { return rank.mean.waiting_s; };
  const auto place = static_cast<size_t>(std::ranges::min_element(ranks, {}, waits) - ranks.begin());
  if (ranks[place].series.waiting_s.empty()) return std::nullopt;
  std::array<std::vector<double>, kRankPhases.size()> longer_s;
  std::array<double, kRankPhases.size()> share{};
  for (size_t i = 0; i < kRankPhases.size(); ++i) {
    const std::vector<double> others = others_s(ranks, place, kRankPhases[i].series);
    longer_s[i] = ranks[place].series.*kRankPhases[i].series;
    subtract(longer_s[i], others);
    share[i] = measure::mean_of(others) > 0 ? median_of(longer_s[i]) / measure::mean_of(others) : 0;
  }
  const std::vector<double> waited_s = others_s(ranks, place, &PhaseSeries::waiting_s);
  double to_explain_s = median_of(waited_s);
  const double forward = share[1], backward = share[2];
  const bool is_similar = forward * kSimilar > backward && forward < kSimilar * backward;
  if (std::abs(backward) < kDisturbed && !is_similar) {
    std::vector<double> undisturbed_s = waited_s;
    subtract(undisturbed_s, longer_s[2]);
    to_explain_s = std::min(to_explain_s, median_of(undisturbed_s));
    longer_s[2].assign(longer_s[2].size(), 0);
  }
  SlowRank found{.place = place};
  std::vector<double> all_s(waited_s.size(), 0), most_s;
  for (size_t i = 0; i < kRankPhases.size(); ++i) {
    // While it is late, others may take longer for what they do meanwhile.
    if (median_of(longer_s[i]) <= 0) continue;
    std::ranges::transform(all_s, longer_s[i], all_s.begin(), std::plus());
    if (median_of(longer_s[i]) <= median_of(most_s)) continue;
    most_s = longer_s[i];
    found.phase = kRankPhases[i].name;
    found.advice = kRankPhases[i].advice;
  }
  if (most_s.empty() || median_of(all_s) < kCovers * to_explain_s) return std::nullopt;
  if (2 * median_of(most_s) < median_of(all_s)) {
    most_s = all_s;
    found.phase = "step without communication";
    found.advice = kDevice;
  }
  found.longer_s = median_of(most_s);
  found.lost_s = std::min(found.longer_s, measure::mean_of(waited_s));
  found.is_certain = is_beyond_chance(most_s);
  return found;
}

}  // namespace lockstep::results
