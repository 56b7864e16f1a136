#include "lockstep/train/verify/verify.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "lockstep/strategies/wire.h"
#include "lockstep/train/rows/agreement.h"
#include "lockstep/train/rows/gather.h"
#include "lockstep/train/rows/row_trainee.h"
#include "lockstep/train/verify/verify_async.h"

namespace lockstep::train {
namespace {

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

Trained train_ranks(const RowPlan& row, int steps, const RankGroup& ranks, launch::Progress& progress) {
  RowTrainee trainee(row, ranks);
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
  Check check{.name = "replicas equal", .outcome = Check::Outcome::kNotApplicable, .detail = {}};
  if (traits.replicas_equal && own.devices > 1) {
    check.outcome = own.device_difference.empty() ? Check::Outcome::kRight : Check::Outcome::kWrong;
    check.detail = own.device_difference.empty()
                       ? fmt::format("what {} devices computed with, bit for bit", own.devices)
                       : own.device_difference;
    return check;
  }
  check.detail = why_not_comparable(traits, group == nullptr ? 1 : group->size());
  if (!check.detail.empty()) return check;
  const size_t steps = own.hashes.size();
  const std::vector<int64_t> all =
      gather_equal(std::vector<int64_t>(own.hashes.begin(), own.hashes.end()), *group);
  check.outcome = Check::Outcome::kRight;
  check.detail = fmt::format("{} values and what they are made from, bit for bit", own.values.size());
  for (size_t step = 0; step < steps && check.outcome == Check::Outcome::kRight; ++step) {
    for (size_t rank = 1; rank < all.size() / steps; ++rank) {
      if (all[rank * steps + step] == all[step]) continue;
      check.outcome = Check::Outcome::kWrong;
      check.detail = fmt::format("rank {} differs from rank 0 from step {} on", rank, step + 1);
      break;
    }
  }
  return check;
}

/// The tensor with the largest difference, as a multiple of what rounding explains.
struct Worst {
  double share = 0;
  std::string tensor;
};

/// The difference that rounding explains; verify_row's comment derives it.
struct Tolerance {
  /// Shares of a tensor's largest move and of its largest value.
  double of_move = 0;
  double of_value = 0;
};

/// `terms`: number of terms in the sum of one gradient.
Tolerance tolerance_of(const RowPlan& row, double terms, int steps) {
  const strategies::Wire wire = strategies::wire_of(row.strategy, row.parsed_options);
  const double wire_rounding = std::sqrt(0.5 * row.ranks * steps) * strategies::unit_roundoff(wire);
  Tolerance tolerance;
  tolerance.of_move = std::sqrt(terms) * std::numeric_limits<float>::epsilon() * steps;
  if (wire != strategies::Wire::kFp32) tolerance.of_move += wire_rounding;
  const bool averages = row.strategy == "bsp" && row.parsed_options.bsp_sync == strategies::BspSync::kAvg;
  if (averages) tolerance.of_value = wire_rounding;
  return tolerance;
}

Worst worst_tensor(const Trained& found, const std::vector<float>& expected, const std::vector<float>& before,
                   const Tolerance& tolerance) {
  Worst worst;
  size_t at = 0;
  for (const replica::NamedTensor& tensor : found.tensors) {
    double move = 0, value = 0, difference = 0;
    for (const size_t end = at + static_cast<size_t>(tensor.value.numel()); at < end; ++at) {
      move = std::max(move, std::abs(double{expected[at]} - before[at]));
      value = std::max(value, std::abs(double{expected[at]}));
      difference = std::max(difference, std::abs(double{expected[at]} - found.values[at]));
    }
    const double allowed = tolerance.of_move * move + tolerance.of_value * value;
    if (difference <= worst.share * allowed) continue;
    worst = {allowed > 0 ? difference / allowed : std::numeric_limits<double>::infinity(), tensor.name};
  }
  return worst;
}

/// Rank 0 trains the joint batch alone and compares; the others go on to the next collective and wait there.
Check check_joint_batch(const RowPlan& row, int steps, const strategies::Traits& traits, const Trained& own,
                        launch::Progress& progress) {
  Check check{.name = "joint batch", .outcome = Check::Outcome::kNotApplicable, .detail = {}};
  if (!traits.replicas_equal) {
    check.detail = "nothing is combined";
    return check;
  }
  if (own.has_batch_norm) {
    check.detail = "batch norm takes its statistics over each rank's own batch";
    return check;
  }
  RowPlan joint = row;
  joint.strategy = results::kSingle;
  joint.ranks = 1;
  joint.batch_per_rank = row.batch_per_rank * row.ranks;
  const std::vector<float> before = RowTrainee(joint, nullptr).values();
  const Trained expected = train_ranks(joint, steps, nullptr, progress);
  // A weight of a convolution sums over the images and over the places in each.
  const double terms = static_cast<double>(joint.batch_per_rank) * row.image_size * row.image_size;
  const Worst worst = worst_tensor(own, expected.values, before, tolerance_of(row, terms, steps));
  check.outcome = worst.share <= 1 ? Check::Outcome::kRight : Check::Outcome::kWrong;
  check.detail =
      fmt::format("{} images on one rank; {:.2g} of what rounding explains{}", joint.batch_per_rank,
                  worst.share, worst.share > 1 ? ", in " + worst.tensor : "");
  return check;
}

Check check_run_to_run(const RowPlan& row, int steps, const Trained& own, const RankGroup& ranks,
                       launch::Progress& progress) {
  const std::string why_not = traits_of(row).depends_on_timing;
  if (!why_not.empty()) return {"run to run", Check::Outcome::kNotApplicable, why_not};
  const Trained again = train_ranks(row, steps, ranks, progress);
  comm::Communicator* group = ranks.control;
  int64_t different = again.hashes != own.hashes ? 1 : 0;
  if (group != nullptr) group->all_reduce(comm::host_buffer(&different, 1), comm::ReduceOp::kMax)->wait();
  if (different == 0) return {"run to run", Check::Outcome::kRight, "the same bits again"};
  const int64_t place = first_difference(again.values, own.values);
  return {"run to run", Check::Outcome::kWrong,
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
  switch (outcome) {
    case Check::Outcome::kRight:
      return "right";
    case Check::Outcome::kWrong:
      return "WRONG";
    case Check::Outcome::kNotApplicable:
      break;
  }
  return "n/a";
}

std::vector<Check> verify_row(const RowPlan& asked, int steps, const RankGroup& ranks,
                              launch::Progress& progress) {
  RowPlan row = asked;
  // With repeatable kernels, only the strategy can make two runs differ.
  row.repeatable = true;
  const strategies::Traits traits = traits_of(row);
  comm::Communicator* group = ranks.control;
  const bool checks_here = ranks.rank() == 0;
  if (traits.applies_on_arrival) {
    std::vector<Check> checks = verify_on_arrival(row, steps, ranks, progress);
    if (!checks_here) checks.clear();
    return checks;
  }
  const Trained own = train_ranks(row, steps, ranks, progress);
  std::vector<Check> checks;
  checks.push_back(check_replicas(traits, own, group));
  Check joint;
  if (checks_here) joint = check_joint_batch(row, steps, traits, own, progress);
  // Only rank 0 knows the outcome, and the second attempt is collective. A rounding that flips a ReLU makes a
  // gradient jump, by chance; it does not happen again with other values, while a wrong strategy stays wrong.
  if (answer_of_rank_0(joint.outcome == Check::Outcome::kWrong, group)) {
    RowPlan other = row;
    other.seed = row.seed + 1;
    const Trained again = train_ranks(other, steps, ranks, progress);
    if (checks_here) joint = check_joint_batch(other, steps, traits, again, progress);
  }
  checks.push_back(joint);
  checks.push_back(check_run_to_run(row, steps, own, ranks, progress));
  if (!checks_here) checks.clear();
  return checks;
}

}  // namespace lockstep::train
