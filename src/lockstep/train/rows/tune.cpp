#include "lockstep/train/rows/tune.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/units.h"
#include "lockstep/measure/series.h"
#include "lockstep/models/model.h"
#include "lockstep/strategies/strategy.h"
#include "lockstep/train/rows/row_trainee.h"

namespace lockstep::train {
namespace {

/// Buckets are laid out anew after the first step, and the second uses them for the first time.
constexpr int kBlockWarmup = 2;
constexpr int kFewestSteps = 3;
constexpr int kMostSteps = 30;
constexpr int kWantedBlocks = 36;
constexpr int kMostBlocks = 48;

double from_rank_0(double value, comm::Communicator& group) {
  group.broadcast(comm::host_buffer(&value, 1), 0)->wait();
  return value;
}

/// The steps of the job, on all ranks. Collective.
std::vector<double> measure_block(RowPlan row, double bucket_mb, int steps, const RankGroup& ranks,
                                  launch::Progress& progress) {
  progress.begin(fmt::format("tuning buckets, {:g} MiB, of {}", bucket_mb, row.label()));
  row.bucket_mb = bucket_mb;
  row.verify_every = 0;
  RowTrainee trainee(row, ranks);
  std::vector<double> step_s =
      trainee.train({.warmup_steps = kBlockWarmup, .steps = steps}, true, false, progress).step_s;
  ranks.control->all_reduce(comm::host_buffer(step_s.data(), step_s.size()), comm::ReduceOp::kMax)->wait();
  return step_s;
}

/// From the times of a first block, which counts for nothing else. Collective.
TuningPlan find_plan(const RowPlan& row, const RankGroup& ranks, launch::Progress& progress) {
  const double begin_s = now_s();
  const std::vector<double> step_s = measure_block(row, row.bucket_mb, kFewestSteps, ranks, progress);
  const double took_s = now_s() - begin_s;
  const double median_s = measure::median_of(step_s);
  const double setup_s = std::max(0.0, took_s - (kBlockWarmup + kFewestSteps) * median_s);
  const TuningPlan plan = plan_tuning(row.tune_budget_s - took_s, setup_s, median_s);
  std::array<int64_t, 2> agreed{plan.blocks, plan.steps};
  ranks.control->broadcast(comm::host_buffer(agreed.data(), agreed.size()), 0)->wait();
  return {.blocks = static_cast<int>(agreed[0]), .steps = static_cast<int>(agreed[1])};
}

}  // namespace

TuningPlan plan_tuning(double budget_s, double setup_s, double step_s) {
  const double steps = (budget_s / kWantedBlocks - setup_s) / step_s - kBlockWarmup;
  TuningPlan plan;
  plan.steps = static_cast<int>(std::clamp<double>(std::floor(steps), kFewestSteps, kMostSteps));
  const double block_s = setup_s + (kBlockWarmup + plan.steps) * step_s;
  plan.blocks = static_cast<int>(std::clamp<double>(std::floor(budget_s / block_s), 0, kMostBlocks));
  return plan;
}

bool has_cap_to_tune(const RowPlan& row) {
  return row.ranks > 1 && traits_of(row).has_buckets;
}

results::BucketTuning tune_buckets(const RowPlan& row, const RankGroup& ranks, launch::Progress& progress,
                                   const std::optional<TuningPlan>& plan) {
  comm::Communicator& group = *ranks.control;
  const TuningPlan measured = plan ? *plan : find_plan(row, ranks, progress);
  const int64_t bytes = 4 * models::info_of(row.model).parameters;
  const auto measure = [&](double cap) {
    return measure_block(row, from_rank_0(cap, group), measured.steps, ranks, progress);
  };
  constexpr double kSearchOver = 0;
  results::BucketTuning tuning;
  if (group.rank() == 0) {
    tuning = search_buckets({.least_mb = measured.least_mb,
                             .default_mb = row.bucket_mb,
                             .payload_mb = static_cast<double>(bytes) / static_cast<double>(kMiB),
                             .blocks = measured.blocks},
                            measure);
    from_rank_0(kSearchOver, group);
  } else {
    while (const double cap = from_rank_0(kSearchOver, group))
      measure_block(row, cap, measured.steps, ranks, progress);
  }
  tuning.budget_s = row.tune_budget_s;
  tuning.chosen_mb = from_rank_0(tuning.chosen_mb, group);
  return tuning;
}

}  // namespace lockstep::train
