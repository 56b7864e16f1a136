#include <cmath>
#include <limits>
#include <mutex>

#include <gtest/gtest.h>

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

constexpr int kSteps = 5;
/// A maximum or a ReLU that the last bit decides the other way changes a gradient by as much as one sample's
/// part. With this learning rate no such tie comes up in lenet5.
constexpr double kSmoothRate = 0.04;

/// Parameters of every rank after kSteps steps.
std::vector<std::vector<float>> train_ranks(const test::ReplicaChoice& choice, int ranks) {
  std::vector<std::vector<float>> parameters(static_cast<size_t>(ranks));
  test::with_thread_ranks(ranks, [&](comm::Communicator& communicator) {
    test::TrainedReplica replica = test::make_replica(choice, &communicator);
    replica.train(kSteps);
    parameters[static_cast<size_t>(communicator.rank())] = replica.parameters();
  });
  return parameters;
}

/// A strategy with options that change what it does.
struct Variant {
  std::string name;
  std::string strategy;
  strategies::StrategyOptions options;
  /// What is rounded beyond the sums of gradients.
  enum Rounding { kNothing, kAveraged, kFp16 } rounding = kNothing;
};

struct Case {
  Variant variant;
  int ranks;
};

void PrintTo(const Case& value, std::ostream* out) {
  *out << value.variant.name << " at " << value.ranks;
}

class EqualityTest : public testing::TestWithParam<Case> {
 protected:
  test::ReplicaChoice choice(const std::string& model, int batch, int image_size = 0) const {
    return {.model = model,
            .strategy = GetParam().variant.strategy,
            .batch = batch,
            .image_size = image_size,
            .strategy_options = GetParam().variant.options};
  }
};

TEST_P(EqualityTest, replicas_have_the_same_bits_after_training) {
  const int ranks = GetParam().ranks;
  // More of the larger network would take most of the time of all tests.
  const auto parameters = train_ranks(ranks < 4 ? choice("resnet18", 2, 32) : choice("lenet5", 2), ranks);
  for (size_t rank = 1; rank < parameters.size(); ++rank) {
    ASSERT_EQ(parameters[0].size(), parameters[rank].size());
    EXPECT_EQ(0, std::memcmp(parameters[0].data(), parameters[rank].data(), 4 * parameters[0].size()))
        << "rank " << rank;
  }
}

// The mean over N ranks of the mean over b samples is the mean over N * b samples; only the order of
// summation differs. A sum of n terms in a different order differs by at most about sqrt(n) * epsilon of the
// terms' size, and with momentum m every step's difference acts for up to 1/(1-m) steps, each scaled by the
// learning rate.
TEST_P(EqualityTest, ranks_agree_with_one_rank_on_the_joint_batch) {
  const int ranks = GetParam().ranks;
  const int batch = 4;
  for (const std::string model : {"mlp", "lenet5"}) {
    test::ReplicaChoice rank_choice = choice(model, batch);
    rank_choice.learning_rate = kSmoothRate;
    const auto parameters = train_ranks(rank_choice, ranks);
    test::TrainedReplica joint = test::make_replica(
        {.model = model, .strategy = "single", .batch = batch * ranks, .learning_rate = kSmoothRate},
        nullptr);
    const std::vector<float> before = joint.parameters();
    joint.train(kSteps);
    const std::vector<float> expected = joint.parameters();
    ASSERT_EQ(expected.size(), parameters[0].size());

    double largest_move = 0;
    double largest_value = 0;
    double largest_difference = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      largest_move = std::max(largest_move, std::abs(double{expected[i]} - before[i]));
      largest_value = std::max(largest_value, std::abs(double{expected[i]}));
      largest_difference = std::max(largest_difference, std::abs(double{expected[i]} - parameters[0][i]));
    }
    // Terms per gradient element: the batch, times the positions of a convolution (24 x 24 in lenet5's
    // first).
    const double terms = batch * ranks * (model == "lenet5" ? 28.0 * 28.0 : 1.0);
    double tolerance = std::sqrt(terms) * std::numeric_limits<float>::epsilon() * kSteps * largest_move;
    if (GetParam().variant.rounding == Variant::kAveraged) {
      // Not only the move is summed over the ranks, but the parameters themselves.
      tolerance += std::sqrt(ranks) * std::numeric_limits<float>::epsilon() * kSteps * largest_value;
    }
    if (GetParam().variant.rounding == Variant::kFp16) {
      // One rounding to 11 bits of each rank's part and one of each sum, instead of those of fp32.
      tolerance += std::sqrt(2.0 * ranks) * 0x1p-11 * kSteps * largest_move;
    }
    ASSERT_GT(largest_move, 0);
    EXPECT_LE(largest_difference, tolerance)
        << model << ": " << largest_difference / tolerance << " of the tolerance";
    // Not trained at all, or on other samples, the ranks would be off by about the move itself.
    EXPECT_LT(tolerance, largest_move / 100);
  }
}

TEST_P(EqualityTest, the_same_seed_gives_the_same_bits_again) {
  const int ranks = GetParam().ranks;
  EXPECT_EQ(train_ranks(choice("lenet5", 4), ranks)[0], train_ranks(choice("lenet5", 4), ranks)[0]);
}

std::vector<Case> all_cases() {
  using strategies::BspSync;
  using strategies::Exchange;
  using enum Variant::Rounding;
  const std::vector<Variant> variants{
      {"ddp", "ddp", {}},
      {"replicated", "replicated", {}},
      {"sharded", "sharded", {}},
      {"sharded_after_backward", "sharded", {.bucket_mb = 0.01, .overlap = false}},
      {"parameter_server", "parameter_server", {}},
      {"parameter_server_at_rank_0",
       "parameter_server",
       {.bucket_mb = 0.01, .parameter_owners = strategies::ParameterOwners::kRank0}},
      {"bsp", "bsp", {}},
      {"horovod", "horovod", {}},
      {"horovod_deterministic", "horovod", {.fusion_mb = 0.1, .deterministic = true}},
      {"bsp_ar_avg", "bsp", {.exchange = Exchange::kAr, .bsp_sync = BspSync::kAvg}, kAveraged},
      {"bsp_asa32", "bsp", {.exchange = Exchange::kAsa32}},
      {"bsp_nccl16", "bsp", {.exchange = Exchange::kNccl16}, kFp16},
      {"bsp_asa16", "bsp", {.exchange = Exchange::kAsa16}, kFp16},
  };
  std::vector<Case> cases;
  for (const Variant& variant : variants) {
    for (const int ranks : {1, 2, 3, 4, 7}) cases.push_back({variant, ranks});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(all, EqualityTest, testing::ValuesIn(all_cases()), [](const auto& named) {
  return named.param.variant.name + "_" + std::to_string(named.param.ranks);
});

}  // namespace
}  // namespace lockstep
