#include "lockstep/train/verify/verify.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/store.h"
#include "lockstep/strategies/tensor_buffer.h"
#include "lockstep/train/rows/agreement.h"
#include "lockstep/train/rows/gather.h"
#include "lockstep/train/rows/row_rules.h"
#include "lockstep/train/rows/row_trainee.h"
#include "lockstep/train/verify/difference.h"

namespace lockstep::train {
namespace {

using Outcome = Check::Outcome;
using Over = strategies::Measured::Over;

constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
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
  const LargestDifference largest =
      largest_difference(trainee.parameters().trainable(), trainee.values(), sum, before,
                         {.of_move = kEpsilon, .of_value = updates * kEpsilon});
  return {"sum of updates", largest.share <= 1 ? Outcome::kRight : Outcome::kWrong,
          fmt::format("{} steps without momentum; {}", steps, tolerance_text(largest))};
}

/// Checks a strategy that applies each gradient when it arrives. The ranks train on one batch each, at their
/// own pace:
/// - applied once: over all ranks as many gradients were applied as were sent, those of each rank and bucket
///   equally often, by the owners' own count;
/// - sum of updates: the parameters moved by all that was sent; this believes no count;
/// - staleness: no gradient is older than the updates that all other ranks make in so many steps. Nothing
///   else bounds it: a rank waits for no other one, so all their steps may overtake a slow one;
/// - loss falls: the mean over the ranks, from the first step to the last.
/// The checks of coupled strategies do not apply. Collective over `ranks`.
std::vector<Check> verify_on_arrival(const RowPlan& row, int steps, const RankGroup& ranks,
                                     launch::Progress& progress, const TraineeStart& start) {
  const Check sum_of_updates = check_sum_of_updates(row, steps, ranks, progress, start);
  steps = std::max(steps, kLeastSteps);
  comm::Communicator* group = ranks.control;
  const int count = group == nullptr ? 1 : group->size();
  // On a busy machine gradients grow so old that training at the full rate may diverge.
  RowPlan slow = row;
  slow.learning_rate /= 10;
  RowTrainee trainee(slow, ranks, nullptr, start);
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

/// The state in which a rank ended.
struct Trained {
  std::vector<float> values;
  std::vector<replica::NamedTensor> tensors;
  /// RowTrainee::state_hash after each step.
  std::vector<uint64_t> hashes;
  /// Devices of this rank.
  int devices = 1;
  /// How the first differing device differed from device 0; empty: none did.
  std::string device_difference;
  bool has_batch_norm = false;
};

Trained train_ranks(const RowPlan& row, int steps, const RankGroup& ranks, launch::Progress& progress,
                    const TraineeStart& start = {}) {
  RowTrainee trainee(row, ranks, nullptr, start);
  Trained trained;
  trained.devices = trainee.devices();
  for (int step = 0; step < steps; ++step) {
    // The other devices compute with copies of these, which are compared after the step.
    const uint64_t before = trained.devices > 1 ? trainee.parameters_hash() : 0;
    trainee.train_one_more(progress);
    trained.hashes.push_back(trainee.state_hash());
    for (int device = 1; device < trained.devices && trained.device_difference.empty(); ++device) {
      if (trainee.parameters_hash(device) == before) continue;
      trained.device_difference = fmt::format("device {} differs from device 0 in step {}", device, step + 1);
    }
  }
  trained.values = trainee.values();
  trained.tensors = trainee.parameters().trainable();
  trained.has_batch_norm = !trainee.parameters().buffers().empty();
  return trained;
}

/// The place of the first value whose bits differ; -1 where none does.
int64_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) return static_cast<int64_t>(i);
  }
  return -1;
}

/// "0.weight[12]" for a place in all values.
std::string place_text(const Trained& trained, int64_t place) {
  for (const replica::NamedTensor& tensor : trained.tensors) {
    if (place < tensor.value.numel()) return fmt::format("{}[{}]", tensor.name, place);
    place -= tensor.value.numel();
  }
  return "?";
}

Check check_replicas(const strategies::Traits& traits, const Trained& own, comm::Communicator* group) {
  constexpr const char* kName = "replicas equal";
  if (traits.replicas_equal && own.devices > 1) {
    if (!own.device_difference.empty()) return {kName, Outcome::kWrong, own.device_difference};
    return {kName, Outcome::kRight, fmt::format("what {} devices computed with, bit for bit", own.devices)};
  }
  const std::string why_not = why_not_comparable(traits, group == nullptr ? 1 : group->size());
  if (!why_not.empty()) return {kName, Outcome::kNotApplicable, why_not};
  const size_t steps = own.hashes.size();
  // One rank's hashes after the other's: that of a rank after a step is at rank * steps + step.
  const std::vector<int64_t> all =
      gather_equal(std::vector<int64_t>(own.hashes.begin(), own.hashes.end()), *group);
  for (size_t step = 0; step < steps; ++step) {
    for (size_t rank = 1; rank < all.size() / steps; ++rank) {
      if (all[rank * steps + step] == all[step]) continue;
      return {kName, Outcome::kWrong,
              fmt::format("rank {} differs from rank 0 from step {} on", rank, step + 1)};
    }
  }
  return {kName, Outcome::kRight,
          fmt::format("{} values and what they are made from, bit for bit", own.values.size())};
}

/// Rounding of a gradient on a GPU, in multiples of a sum's: for some batches cuDNN takes a transform
/// (Winograd, FFT). lenet5 on an H100, 12 images at once against 3 times 4: 29 times in its first
/// convolution.
constexpr double kTransformRounding = 100;

/// Most steps of a joint batch that is summed in a low rank or normalized: both amplify rounding from step to
/// step.
constexpr int kFewSteps = 2;

/// Rounding of three products and an orthogonalization, in multiples of a sum's.
constexpr double kLowRankRounding = 4;

/// Normalized values crowd around 0, so that rounding turns over some ReLUs in nearly every step. Most of the
/// move by which parameters may differ for it.
constexpr double kMostTurnedOver = 0.05;

/// `terms`: number of terms in the sum of one gradient.
Tolerance tolerance_of(const RowPlan& row, double terms, int steps) {
  const strategies::Wire wire = strategies::wire_of(row.strategy, row.parsed_options);
  const double wire_rounding = std::sqrt(0.5 * row.ranks * steps) * strategies::unit_roundoff(wire);
  // Every update rounds a value by half an epsilon, in either training.
  Tolerance tolerance{.of_move = std::sqrt(terms) * kEpsilon * steps, .of_value = kEpsilon * steps};
  if (on_gpu(row)) tolerance.of_move *= kTransformRounding;
  if (row.parsed_options.powersgd > 0) tolerance.of_move *= kLowRankRounding;
  if (wire != strategies::Wire::kFp32) tolerance.of_move += wire_rounding;
  const bool averages = row.strategy == "bsp" && row.parsed_options.bsp_sync == strategies::BspSync::kAvg;
  if (averages) tolerance.of_value += wire_rounding;
  return tolerance;
}

/// The same training on one rank. A network with graphs of fixed batches takes the batches of the ranks one
/// after the other, as micro-batches.
RowPlan joint_row(const RowPlan& row) {
  RowPlan joint = row;
  // Gradients in a low rank follow from the mean gradient, so one rank has the same.
  if (row.parsed_options.powersgd == 0) joint.strategy = results::kSingle;
  joint.parsed_options.sync_batch_norm = false;
  joint.ranks = 1;
  const auto& file = models::info_of(row.model).file;
  (file == nullptr || !file->has_fixed_batches() ? joint.batch_per_rank : joint.accumulate) *= row.ranks;
  return joint;
}

/// Places in a sample that a weight may be applied at: the pixels of an image, the values of other inputs.
double places_of(const RowPlan& row) {
  const auto& file = models::info_of(row.model).file;
  if (file == nullptr) return static_cast<double>(row.image_size) * row.image_size;
  double places = 1;
  for (const int64_t size : file->inputs.front().shape) places *= static_cast<double>(size);
  return places;
}

/// Trains the joint batch alone and compares.
Check check_joint_batch(const RowPlan& row, int steps, const strategies::Traits& traits, const Trained& own,
                        launch::Progress& progress) {
  constexpr const char* kName = "joint batch";
  if (!traits.replicas_equal) return {kName, Outcome::kNotApplicable, "nothing is combined"};
  if (!traits.no_joint_batch.empty()) return {kName, Outcome::kNotApplicable, traits.no_joint_batch};
  if (traits.steps_alone > 0 && row.grad_clip > 0) {
    return {kName, Outcome::kNotApplicable, "every rank clips its own gradients"};
  }
  if (own.has_batch_norm && row.ranks > 1 && !row.parsed_options.sync_batch_norm) {
    return {
        kName, Outcome::kNotApplicable,
        fmt::format("{0} x {1} is not 1 x {2}: batch norm takes its statistics over each rank's own batch, "
                    "without --sync-batch-norm",
                    row.ranks, row.batch_per_rank, row.ranks * row.batch_per_rank)};
  }
  if (draws_random_numbers(row)) {
    return {kName, Outcome::kNotApplicable, "the network draws random numbers, other ones on every rank"};
  }
  const RowPlan joint = joint_row(row);
  comm::HashStore store;
  const std::unique_ptr<comm::Communicator> alone =
      row.parsed_options.powersgd > 0 ? comm::connect("thread", {.rank = 0, .size = 1, .store = &store})
                                      : nullptr;
  const std::vector<float> before = RowTrainee(joint, alone.get()).values();
  const Trained expected = train_ranks(joint, steps, alone.get(), progress);
  // A weight of a convolution sums over the images and over the places in each.
  const double terms = static_cast<double>(joint.images_per_rank_step()) * places_of(row);
  const std::string images =
      fmt::format("{} images on one rank, {} steps; ", joint.images_per_rank_step(), steps);
  if (own.has_batch_norm) {
    const double share = difference_of_moves(own.values, expected.values, before);
    return {
        kName, share <= kMostTurnedOver ? Outcome::kRight : Outcome::kWrong,
        images + fmt::format("{:.2g} % of the move apart, and ReLUs that rounding turns over explain {:g} %",
                             100 * share, 100 * kMostTurnedOver)};
  }
  const LargestDifference largest =
      largest_difference(own.tensors, own.values, expected.values, before, tolerance_of(row, terms, steps));
  return {kName, largest.share <= 1 ? Outcome::kRight : Outcome::kWrong, images + tolerance_text(largest)};
}

/// Trains the replica of every rank in turn, and combines their parameters by the definition of the outer
/// step (strategies/local_sgd.cpp), in double precision.
Check check_in_turn(const RowPlan& row, int steps, const Trained& own, launch::Progress& progress) {
  constexpr const char* kName = "ranks in turn";
  if (draws_random_numbers(row)) {
    return {kName, Outcome::kNotApplicable, "the network draws random numbers, other ones on every rank"};
  }
  RowPlan alone = row;
  alone.strategy = results::kSingle;
  alone.ranks = 1;
  alone.parsed_options = {};
  std::vector<std::unique_ptr<RowTrainee>> replicas;
  for (int rank = 0; rank < row.ranks; ++rank) {
    TraineeStart start;
    start.make_input = [&row, rank](auto accelerator) {
      return create_input(row, rank, std::move(accelerator));
    };
    replicas.push_back(std::make_unique<RowTrainee>(alone, nullptr, nullptr, start));
  }
  const std::vector<float> before = replicas.front()->values();
  std::vector<double> anchor(before.begin(), before.end()), momenta(before.size(), 0), mean;
  const auto& [rate, momentum] = std::tie(row.parsed_options.outer_lr, row.parsed_options.outer_momentum);
  for (int step = 1; step <= steps; ++step) {
    for (const auto& replica : replicas) replica->train_one_more(progress);
    const bool exchanges = step % row.parsed_options.sync_every == 0;
    if (!exchanges && step < steps) continue;
    mean.assign(before.size(), 0);
    for (const auto& replica : replicas) {
      const std::vector<float> values = replica->values();
      for (size_t i = 0; i < mean.size(); ++i) mean[i] += double{values[i]} / row.ranks;
    }
    if (!exchanges) break;
    for (size_t i = 0; i < mean.size(); ++i) {
      const double move = anchor[i] - mean[i];
      momenta[i] = momentum * momenta[i] + move;
      anchor[i] -= rate * (move + momentum * momenta[i]);
    }
    mean = anchor;
    for (const auto& replica : replicas) replica->set_values({anchor.begin(), anchor.end()});
  }
  const LargestDifference largest =
      largest_difference(own.tensors, own.values, mean, before, tolerance_of(row, row.ranks, steps));
  return {kName, largest.share <= 1 ? Outcome::kRight : Outcome::kWrong,
          fmt::format("{} steps of each rank on one, combined by definition; {}", steps,
                      tolerance_text(largest))};
}

Check check_run_to_run(const RowPlan& row, int steps, const Trained& own, const RankGroup& ranks,
                       launch::Progress& progress, const TraineeStart& start) {
  const std::string why_not = traits_of(row).depends_on_timing;
  if (!why_not.empty()) return {"run to run", Outcome::kNotApplicable, why_not};
  const Trained again = train_ranks(row, steps, ranks, progress, start);
  comm::Communicator* group = ranks.control;
  int64_t different = again.hashes != own.hashes ? 1 : 0;
  if (group != nullptr) group->all_reduce(comm::host_buffer(&different, 1), comm::ReduceOp::kMax)->wait();
  if (different == 0) return {"run to run", Outcome::kRight, "the same bits again"};
  const int64_t place = first_difference(again.values, own.values);
  return {"run to run", Outcome::kWrong,
          place < 0 ? "gradients on the way, or another rank than 0, had other bits"
                    : fmt::format("{} differs when it is trained again", place_text(own, place))};
}

/// Rank 0's answer on all ranks. Collective.
bool answer_of_rank_0(bool answer, comm::Communicator* group) {
  int64_t value = answer ? 1 : 0;
  if (group != nullptr) group->broadcast(comm::host_buffer(&value, 1), 0)->wait();
  return value != 0;
}

}  // namespace

const char* outcome_text(Check::Outcome outcome) {
  if (outcome == Outcome::kNotApplicable) return "n/a";
  return outcome == Outcome::kRight ? "right" : "WRONG";
}

std::vector<Check> verify_row(const RowPlan& asked, int steps, const RankGroup& ranks,
                              launch::Progress& progress, const TraineeStart& start) {
  RowPlan row = asked;
  // With repeatable kernels, only the strategy can make two runs differ.
  row.repeatable = true;
  const strategies::Traits traits = traits_of(row);
  const bool checks_here = ranks.rank() == 0;
  std::vector<Check> checks;
  if (traits.applies_on_arrival) {
    checks = verify_on_arrival(row, steps, ranks, progress, start);
    if (!checks_here) checks.clear();
    return checks;
  }
  // Two exchanges, and a step from there on.
  if (traits.steps_alone > 1) steps = std::max(steps, 2 * traits.steps_alone + 1);
  const Trained own = train_ranks(row, steps, ranks, progress, start);
  checks.push_back(check_replicas(traits, own, ranks.control));
  const auto against_one_rank = [&](const std::string& name, int few, const auto& check) {
    const Trained first = few == steps ? own : train_ranks(row, few, ranks, progress, start);
    Check found;
    ranks.on_rank_0_alone(name, [&] { found = check(row, first); });
    // Only rank 0 knows the outcome, and the second attempt is collective. A rounding that flips a ReLU makes
    // a gradient jump, by chance; it does not happen again with other values, while a wrong strategy stays
    // wrong.
    if (answer_of_rank_0(found.outcome == Outcome::kWrong, ranks.control)) {
      RowPlan other = row;
      other.seed = row.seed + 1;
      const Trained again = train_ranks(other, few, ranks, progress, start);
      ranks.on_rank_0_alone("other " + name, [&] { found = check(other, again); });
    }
    checks.push_back(found);
  };
  const bool amplifies = row.parsed_options.sync_batch_norm || row.parsed_options.powersgd > 0;
  const int joint_steps = amplifies ? std::min(steps, kFewSteps) : steps;
  against_one_rank("joint batch", joint_steps, [&](const RowPlan& of, const Trained& trained) {
    return check_joint_batch(of, joint_steps, traits, trained, progress);
  });
  if (traits.steps_alone > 0) {
    against_one_rank("ranks in turn", steps, [&](const RowPlan& of, const Trained& trained) {
      return check_in_turn(of, steps, trained, progress);
    });
  }
  checks.push_back(check_run_to_run(row, steps, own, ranks, progress, start));
  if (!checks_here) checks.clear();
  return checks;
}

}  // namespace lockstep::train
