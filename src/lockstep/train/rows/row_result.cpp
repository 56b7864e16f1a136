#include "lockstep/train/rows/row_result.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "lockstep/base/plain_text.h"
#include "lockstep/base/units.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/machine_warnings.h"
#include "lockstep/results/record/resources.h"

namespace lockstep::train {
namespace {

using Ranks = std::vector<RankReport>;

/// A member of the report of every rank.
template <typename T>
std::vector<T> of_ranks(const Ranks& ranks, T RankReport::*member) {
  std::vector<T> all;
  for (const RankReport& rank : ranks) all.push_back(rank.*member);
  return all;
}

results::ReplicaMemory memory_of(const Ranks& ranks) {
  using replica::MemoryUse;
  const auto over_ranks = [&](const auto& bytes_of) {
    results::ByteRange range{bytes_of(ranks.front().memory), bytes_of(ranks.front().memory)};
    for (const RankReport& rank : ranks) {
      range.least = std::min(range.least, bytes_of(rank.memory));
      range.most = std::max(range.most, bytes_of(rank.memory));
    }
    return range;
  };
  return {.parameters = over_ranks([](const MemoryUse& rank) { return rank.parameters; }),
          .gradients = over_ranks([](const MemoryUse& rank) { return rank.gradients; }),
          .momenta = over_ranks([](const MemoryUse& rank) { return rank.momenta; }),
          .buffers = over_ranks([](const MemoryUse& rank) { return rank.buffers; }),
          .total = over_ranks([](const MemoryUse& rank) { return rank.total(); }),
          .gathered = over_ranks([](const MemoryUse& rank) { return rank.gathered; }),
          .activations = over_ranks([](const MemoryUse& rank) { return rank.activations; }),
          .peak = over_ranks([](const MemoryUse& rank) { return rank.peak(); })};
}

std::vector<results::InputQueue> queues_of(const Ranks& ranks) {
  std::vector<results::InputQueue> all;
  for (size_t i = 0; i < ranks.front().queues.size(); ++i) {
    const feed::QueueUse& any = ranks.front().queues[i];
    results::InputQueue queue{.name = any.name, .capacity = any.capacity, .producers = any.producers};
    double ready = 0, made = 0, made_s = 0;
    for (const RankReport& rank : ranks) {
      if (rank.queues.empty()) continue;
      const feed::QueueUse& use = rank.queues[i];
      queue.batches += use.batches;
      queue.empty += use.empty;
      queue.empty_s += use.empty_s;
      queue.full += use.full;
      queue.full_s += use.full_s;
      ready += static_cast<double>(use.ready);
      made += static_cast<double>(use.made);
      made_s += use.made_s;
      if (use.elapsed_s <= 0) continue;
      const double batches_per_s = static_cast<double>(use.batches) / use.elapsed_s;
      queue.images_per_s += batches_per_s * static_cast<double>(use.images_per_batch);
      queue.gb_per_s += batches_per_s * static_cast<double>(use.bytes_per_batch) / 1e9;
    }
    if (queue.batches > 0) queue.depth = ready / static_cast<double>(queue.batches);
    if (made > 0) queue.producer_s = made_s / made;
    all.push_back(std::move(queue));
  }
  return all;
}

/// Adds a warning where strangers sent batches to ranks: one, because rows with the same advice share theirs.
void warn_of_strangers(results::Run& run, const Ranks& ranks) {
  std::vector<size_t> disturbed;
  int64_t refused = 0;
  std::string first;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const feed::QueueUse& use : ranks[rank].queues) {
      if (use.refused == 0) continue;
      if (disturbed.empty()) first = printable(use.first_refused);
      if (disturbed.empty() || disturbed.back() != rank) disturbed.push_back(rank);
      refused += use.refused;
    }
  }
  if (disturbed.empty()) return;
  std::string who = fmt::format("Rank {}", disturbed.front());
  if (disturbed.size() > 1) who += " and " + counted(std::ssize(disturbed) - 1, "other");
  run.warnings.push_back(
      {fmt::format("{} refused {} of what strangers sent; the first: {}.", who, refused, first),
       "Set LOCKSTEP_TOKEN for ranks and producers, or use an address of the form ipc:///tmp/NAME."});
}

/// The samples of a breakdown's run, of `period` steps each: of the job (coupled), or means over the ranks.
std::vector<double> broken_down_steps(const std::vector<measure::RankStamps>& ranks, bool coupled,
                                      size_t period) {
  std::vector<double> step_s;
  for (size_t i = 0; i + period <= ranks.front().steps.size(); i += period) {
    double longest_s = 0, sum_s = 0;
    for (const measure::RankStamps& rank : ranks) {
      const double own_s =
          (rank.steps[i + period - 1].end_s - rank.steps[i].begin_s) / static_cast<double>(period);
      longest_s = std::max(longest_s, own_s);
      sum_s += own_s;
    }
    step_s.push_back(coupled ? longest_s : sum_s / static_cast<double>(ranks.size()));
  }
  return step_s;
}

void add_warnings(results::Run& run, std::vector<results::Warning> warnings) {
  std::ranges::move(warnings, std::back_inserter(run.warnings));
}

/// Adds the measurements that explain the times of a run.
void explain(results::Run& run, const RowResult& result) {
  for (const strategies::Measured& measured : result.measured) {
    run.own_measures.push_back({measured.name, measured.value, strategies::to_string(measured.over)});
  }
  const std::vector<topology::RankUse> use = of_ranks(result.ranks, &RankReport::use);
  for (const RankReport& rank : result.ranks) std::ranges::copy(rank.gpus, std::back_inserter(run.gpu_use));
  run.memory = memory_of(result.ranks);
  if (result.predicted_memory != replica::MemoryUse()) {
    RankReport any;
    any.memory = result.predicted_memory;
    run.predicted_memory = memory_of({any});
  }
  run.input_queues = queues_of(result.ranks);
  run.resources = results::resources_of(use, run.threads_per_rank);
  run.device_settings = result.device_settings;
  warn_of_strangers(run, result.ranks);
  add_warnings(run, results::resource_warnings(use));
  add_warnings(run, results::gpu_warnings(run.gpu_use));
  add_warnings(run, results::series_warnings(run));
  add_warnings(run, results::rank_warnings(run));
}

/// The number of warm-up steps in the steps so far of a rank or of a job.
size_t warmup_so_far(std::span<const double> step_s, const RowPlan& row, std::string& choice) {
  const measure::SteadyState found = steady_state(step_s, row.pacing);
  choice = found.chosen;
  return std::min(found.cut, step_s.size());
}

/// Cuts all ranks to the steps of the slowest one; returns the longest of each step.
std::vector<double> align_steps(std::vector<std::vector<double>>& step_s) {
  const size_t steps = std::ranges::min(step_s, {}, [](const auto& rank) { return rank.size(); }).size();
  std::vector<double> longest_s(steps);
  for (std::vector<double>& rank : step_s) {
    rank.resize(steps);
    for (size_t i = 0; i < steps; ++i) longest_s[i] = std::max(longest_s[i], rank[i]);
  }
  return longest_s;
}

}  // namespace

results::Run run_of(const RowResult& result) {
  const RowPlan& row = result.row;
  results::Run run{row, result.ending};
  run.coupled = traits_of(row).coupled;
  for (const RankReport& rank : result.ranks) {
    run.loss_first += rank.loss_first / static_cast<double>(result.ranks.size());
    run.loss_last += rank.loss_last / static_cast<double>(result.ranks.size());
  }
  run.tuning = result.tuning;
  if (row.verify_every > 0) {
    run.replica_checks = results::ReplicaChecks{.every = row.verify_every,
                                                .checks = result.replica_checks,
                                                .not_applicable = result.why_not_compared};
  }
  results::summarize(run, {.warmup_s = of_ranks<std::vector<double>>(result.ranks, &RankReport::warmup_s),
                           .step_s = of_ranks<std::vector<double>>(result.ranks, &RankReport::step_s)});
  explain(run, result);
  if (!result.stamps.empty()) {
    run.breakdown = measure::break_down(result.stamps);
    add_warnings(
        run, results::breakdown_warnings(
                 run, broken_down_steps(result.stamps, run.coupled, static_cast<size_t>(row.pacing.period))));
  }
  return run;
}

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
  size_t cut = 0;
  if (traits.coupled) cut = warmup_so_far(align_steps(step_s), row, run.warmup_choice);
  results::RowSeries series;
  for (const std::vector<double>& rank : step_s) {
    if (!traits.coupled) cut = warmup_so_far(rank, row, run.warmup_choice);
    const auto warm = rank.begin() + static_cast<std::ptrdiff_t>(cut);
    series.warmup_s.emplace_back(rank.begin(), warm);
    series.step_s.emplace_back(warm, rank.end());
  }
  results::summarize(run, series);
  // Warnings say how far to trust a rate, and the rate of an unfinished row is compared with nothing.
  run.warnings.clear();
  return run;
}

}  // namespace lockstep::train
