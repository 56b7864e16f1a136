#include "lockstep/train/rows/unfinished_row.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "lockstep/results/record/summarize.h"

namespace lockstep::train {
namespace {

using StepsByRank = std::vector<std::vector<double>>;

/// The warm-up of a rank or of a job whose steps so far are these.
size_t warmup_so_far(std::span<const double> step_s, const RowPlan& row, std::string& choice) {
  const measure::SteadyState found = steady_state(step_s, row.pacing);
  choice = found.chosen;
  return std::min(found.cut, step_s.size());
}

/// Splits each rank's steps where its warm-up ends, `cuts[rank]`.
results::RowSeries split_steps(const StepsByRank& step_s, const std::vector<size_t>& cuts) {
  results::RowSeries series;
  for (size_t rank = 0; rank < step_s.size(); ++rank) {
    const auto cut = step_s[rank].begin() + static_cast<std::ptrdiff_t>(cuts[rank]);
    series.warmup_s.emplace_back(step_s[rank].begin(), cut);
    series.step_s.emplace_back(cut, step_s[rank].end());
  }
  return series;
}

}  // namespace

std::optional<results::Run> unfinished_run(const RowPlan& row, std::vector<std::vector<double>> step_s,
                                           const std::string& reason) {
  const strategies::Traits traits = traits_of(row);
  // A step of one process is a step of each of its devices.
  if (traits.one_process && !step_s.empty())
    step_s.assign(static_cast<size_t>(row.ranks), std::vector<double>(step_s.front()));
  if (step_s.empty() || std::ranges::any_of(step_s, &std::vector<double>::empty)) return {};
  results::Run run{row};
  run.coupled = traits.coupled;
  run.unfinished = reason;
  run.loss_first = run.loss_last = std::numeric_limits<double>::quiet_NaN();
  std::vector<size_t> cuts;
  if (traits.coupled) {
    // Ranks differ by the step that each is in.
    const size_t steps = std::ranges::min(step_s, {}, [](const auto& rank) { return rank.size(); }).size();
    std::vector<double> longest_s(steps);
    for (std::vector<double>& rank : step_s) {
      rank.resize(steps);
      for (size_t i = 0; i < steps; ++i) longest_s[i] = std::max(longest_s[i], rank[i]);
    }
    cuts.assign(step_s.size(), warmup_so_far(longest_s, row, run.warmup_choice));
  } else {
    for (const std::vector<double>& rank : step_s)
      cuts.push_back(warmup_so_far(rank, row, run.warmup_choice));
  }
  results::RowSeries series = split_steps(step_s, cuts);
  if (!traits.coupled) {
    for (const std::vector<double>& warmup_s : series.warmup_s) {
      series.start_s.push_back(std::accumulate(warmup_s.begin(), warmup_s.end(), 0.0));
    }
  }
  results::summarize(run, series);
  // They say how far to trust a rate that is compared with others.
  run.warnings.clear();
  return run;
}

}  // namespace lockstep::train
