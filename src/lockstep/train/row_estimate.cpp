// What sweep.h promises to estimate of a row before it is run.

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/models/model.h"
#include "lockstep/train/sweep.h"

namespace lockstep::train {
namespace {

/// What a row takes where precision decides and the machine is quiet.
constexpr int kUsualSteps = 60;
constexpr int kUsualWarmup = 5;

MemoryEstimate estimate_memory(const RowPlan& row, const models::ModelCost& cost) {
  const models::ModelInfo& info = models::registry().get(row.model);
  MemoryEstimate estimate;
  estimate.process_bytes = 350 * kMiB;
  // Parameters, gradients and momentum, and a second set of gradients: autograd's beside the buckets.
  estimate.parameter_bytes = 4 * 4 * info.parameters;
  // The backward pass holds gradients of the activations that it is working on beside those kept.
  estimate.activation_bytes = row.batch_per_rank * cost.activation_bytes * 5 / 4;
  return estimate;
}

models::ModelCost cost_of(const RowPlan& row) {
  return models::measure_cost(models::registry().get(row.model), row.image_size, row.precision == "bf16");
}

}  // namespace

MemoryEstimate estimate_memory(const RowPlan& row) {
  return estimate_memory(row, cost_of(row));
}

RowEstimate estimate_row(const RowPlan& row) {
  const models::ModelInfo& info = models::registry().get(row.model);
  models::measure_cost(info, row.image_size, row.precision == "bf16");
  const double begin_s = now_s();
  RowEstimate estimate{.memory = estimate_memory(row)};
  const double forward_s = now_s() - begin_s;
  // Backward costs twice as much as forward.
  const double step_s = 3 * forward_s * row.images_per_rank_step();
  const double steps =
      row.pacing.steps.value_or(kUsualSteps) + row.pacing.warmup_steps.value_or(kUsualWarmup);
  estimate.duration_s = step_s * steps;
  if (!row.pacing.steps) estimate.duration_s = std::min(estimate.duration_s, row.pacing.max_time_s);
  estimate.duration_s += row.tune_budget_s;
  return estimate;
}

void check_memory(const std::vector<RowPlan>& rows, int ranks_per_host, int64_t available_bytes) {
  // One network is built once, whatever number of rows it has.
  std::map<std::tuple<std::string, int, std::string>, models::ModelCost> costs;
  for (const RowPlan& row : rows) {
    const auto key = std::make_tuple(row.model, row.image_size, row.precision);
    if (!costs.contains(key)) costs[key] = cost_of(row);
    const MemoryEstimate estimate = estimate_memory(row, costs[key]);
    const int local_ranks = std::min(row.ranks, ranks_per_host);
    // The ranks that sleep while this row runs hold their processes.
    const int64_t idle_bytes = int64_t{ranks_per_host - local_ranks} * estimate.process_bytes;
    const int64_t needed_bytes = local_ranks * estimate.total_bytes() + idle_bytes;
    if (needed_bytes <= available_bytes) continue;
    const int64_t fixed_bytes =
        idle_bytes + local_ranks * (estimate.process_bytes + estimate.parameter_bytes);
    const int64_t per_image_bytes = local_ranks * estimate.activation_bytes / row.batch_per_rank;
    const int64_t fitting = std::max<int64_t>(0, (available_bytes - fixed_bytes) / per_image_bytes);
    throw ConfigError(
        fmt::format("{} needs about {} on one host ({} per rank), but only {} are available", row.label(),
                    format_bytes(needed_bytes), format_bytes(estimate.total_bytes()),
                    format_bytes(available_bytes)),
        fitting > 0 ? fmt::format("Use --batch {} or less, fewer ranks, or a smaller --image-size.", fitting)
                    : std::string("Use fewer ranks or a smaller model: not even a batch of 1 would fit."));
  }
}

}  // namespace lockstep::train
