#include "lockstep/train/verify/on_arrival.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/train/rows/gather.h"
#include "lockstep/train/verify/difference.h"

namespace lockstep::train {
namespace {

using Outcome = Check::Outcome;
using Over = strategies::Measured::Over;

/// Enough steps for the loss of a network that learns to fall.
constexpr int kLeastSteps = 60;

double value_of(const std::vector<strategies::Measured>& measured, const char* name, Over over) {
  for (const strategies::Measured& one : measured) {
    if (one.name == name && one.over == over) return one.value;
  }
  throw Error(fmt::format("a strategy that applies gradients as they arrive does not measure {}", name));
}

Check check_applied_once(const std::vector<strategies::Measured>& measured, int64_t rank_steps) {
  const auto sent = static_cast<int64_t>(value_of(measured, "gradients_sent", Over::kJob));
  const auto applied = static_cast<int64_t>(value_of(measured, "gradients_applied", Over::kJob));
  const bool right = sent == applied && applied > 0 && applied % rank_steps == 0;
  return {"applied once", right ? Outcome::kRight : Outcome::kWrong,
          fmt::format("{} gradients of buckets sent, {} applied", sent, applied)};
}

Check check_staleness(const std::vector<strategies::Measured>& measured, int others, int steps) {
  const auto most = static_cast<int64_t>(value_of(measured, "staleness", Over::kMost));
  const int64_t bound = int64_t{others} * steps;
  return {"staleness", most <= bound ? Outcome::kRight : Outcome::kWrong,
          fmt::format("mean {:.2f}, at most {}; other ranks make {} updates in {} steps",
                      value_of(measured, "staleness", Over::kMean), most, bound, steps)};
}

Check check_loss(const StepLoopResult& own, int ranks, int steps, comm::Communicator* group) {
  std::array<double, 2> loss{own.loss_first, own.loss_last};
  if (group != nullptr) group->all_reduce(comm::host_buffer(loss.data(), 2), comm::ReduceOp::kSum)->wait();
  return {"loss falls", loss[1] < loss[0] ? Outcome::kRight : Outcome::kWrong,
          fmt::format("from {} to {} in {} steps on one batch per rank", format_number(loss[0] / ranks, 4),
                      format_number(loss[1] / ranks, 4), steps)};
}

/// Adds the gradients that the strategy sent in the step before to `sum`, in the order of RowTrainee::values.
void add_gradients(const RowTrainee& trainee, std::vector<double>& sum) {
  size_t at = 0;
  for (const at::Tensor& parameter : trainee.parameters().tensors()) {
    // In the layout of the parameter, not of the gradient.
    const at::Tensor gradient = at::empty_like(parameter.detach(), at::kCPU).copy_(parameter.grad());
    const auto* values = static_cast<const float*>(gradient.const_data_ptr());
    for (int64_t i = 0; i < gradient.numel(); ++i) sum[at++] += double{values[i]};
  }
}

/// Without momentum and weight decay, N ranks that apply every gradient once move the parameters by -lr times
/// the sum of the gradients sent (each of 1/N of a batch's mean), whatever the order.
Check check_sum_of_updates(RowPlan row, int steps, const RankGroup& ranks, launch::Progress& progress,
                           const TraineeStart& start) {
  row.momentum = 0;
  row.nesterov = false;
  row.weight_decay = 0;
  RowTrainee trainee(row, ranks, nullptr, start);
  const std::vector<float> before = trainee.values();
  std::vector<double> sum(before.size());
  const auto add_last = [&](int64_t trained) {
    if (trained > 0) add_gradients(trainee, sum);
  };
  trainee.train_steps(steps, 0, {.before_step = add_last}, progress);
  add_last(steps);
  if (ranks.control != nullptr) {
    ranks.control->all_reduce(comm::host_buffer(sum.data(), sum.size()), comm::ReduceOp::kSum)->wait();
  }
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = before[i] - row.learning_rate * sum[i];
  // Every update rounds the product and the value once each, in whatever order they come.
  const int updates = steps * row.ranks;
  constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
  const LargestDifference largest =
      largest_difference(trainee.parameters().trainable(), trainee.values(), sum, before,
                         {.of_move = kEpsilon, .of_value = updates * kEpsilon});
  return {"sum of updates", largest.share <= 1 ? Outcome::kRight : Outcome::kWrong,
          fmt::format("{} steps without momentum; {}", steps, tolerance_text(largest))};
}

}  // namespace

std::vector<Check> verify_on_arrival(const RowPlan& row, int steps, const RankGroup& ranks,
                                     launch::Progress& progress, const TraineeStart& start) {
  const Check sum_of_updates = check_sum_of_updates(row, steps, ranks, progress, start);
  steps = std::max(steps, kLeastSteps);
  comm::Communicator* group = ranks.control;
  const int count = group == nullptr ? 1 : group->size();
  RowTrainee trainee(row, ranks, nullptr, start);
  trainee.repeat_one_batch();
  // Coupled, so that every rank takes exactly this many steps; otherwise it would go on until the last is
  // done.
  const StepLoopResult own =
      trainee.train({.warmup_steps = 0, .steps = steps}, /*coupled=*/true, /*stamp_phases=*/false, progress);
  const auto measured = combine_measured(trainee.measured(), static_cast<size_t>(steps), group);
  return {{"replicas equal", Outcome::kNotApplicable, "each rank computes with what it fetched last"},
          {"joint batch", Outcome::kNotApplicable, "gradients are applied one by one, in no fixed order"},
          {"run to run", Outcome::kNotApplicable, traits_of(row).depends_on_timing},
          check_applied_once(measured, int64_t{count} * steps),
          sum_of_updates,
          check_staleness(measured, count - 1, steps),
          check_loss(own, count, steps, group)};
}

}  // namespace lockstep::train
