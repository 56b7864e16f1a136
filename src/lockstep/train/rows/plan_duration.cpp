#include "lockstep/train/rows/plan_duration.h"

#include <algorithm>

#include "lockstep/base/clock.h"
#include "lockstep/models/model.h"
#include "lockstep/train/rows/row_runner.h"
#include "lockstep/train/rows/row_trainee.h"

namespace lockstep::train {
namespace {

/// Images of a step whose whole batch would take longer. With fewer, kernels take other algorithms
/// (kernels/winograd.h).
constexpr int kFewImages = 4;
constexpr double kLongestStep_s = 1;

StepCost try_batch(RowPlan row, int images) {
  row.batch_per_rank = images;
  row.strategy = results::kSingle;
  row.parsed_options = {};
  row.ranks = row.accumulate = 1;
  row.input = "device";
  row.verify_every = 0;
  const double begin_s = now_s();
  RowTrainee trainee(row, nullptr);
  launch::Progress progress;
  const auto step_s = [&] {
    return trainee.train({.warmup_steps = 0, .steps = 1}, /*coupled=*/true, /*stamp_phases=*/false, progress)
        .step_s.front();
  };
  step_s();
  const double set_up_s = now_s() - begin_s;
  return {.set_up_s = set_up_s, .step_s = step_s()};
}

}  // namespace

StepCost try_steps(const RowPlan& row) {
  // A network from a file has whole batches only.
  const bool whole = models::info_of(row.model).file != nullptr;
  const int images = whole ? row.batch_per_rank : std::min(kFewImages, row.batch_per_rank);
  StepCost cost = try_batch(row, images);
  if (images == row.batch_per_rank) return cost;
  cost.step_s *= static_cast<double>(row.batch_per_rank) / images;
  return cost.step_s < kLongestStep_s ? try_batch(row, row.batch_per_rank) : cost;
}

Duration duration_of(const RowPlan& row, const StepCost& cost, bool breakdown) {
  const auto steps_s = [&](const PacingOptions& pacing) {
    return row.accumulate * cost.step_s * static_cast<double>(steps_to_first_decision(pacing));
  };
  double around_s = cost.set_up_s + row.tune_budget_s;
  if (breakdown) around_s += cost.set_up_s + steps_s(breakdown_pacing(row));
  const double first_s = steps_s(row.pacing);
  if (row.pacing.steps) return {around_s + first_s, around_s + first_s};
  const double least_s = std::max(first_s, std::min(row.pacing.min_time_s, row.pacing.max_time_s));
  return {around_s + least_s, around_s + std::max(first_s, row.pacing.max_time_s)};
}

}  // namespace lockstep::train
