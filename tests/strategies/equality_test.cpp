#include <cmath>
#include <limits>
#include <mutex>

#include <gtest/gtest.h>

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

constexpr int kSteps = 5;

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
  const auto parameters = train_ranks(choice("resnet18", 2, 32), GetParam().ranks);
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
    const auto parameters = train_ranks(choice(model, batch), ranks);
    test::TrainedReplica joint =
        test::make_replica({.model = model, .strategy = "single", .batch = batch * ranks}, nullptr);
    const std::vector<float> before = joint.parameters();
    joint.train(kSteps);
    const std::vector<float> expected = joint.parameters();
    ASSERT_EQ(expected.size(), parameters[0].size());

    double largest_move = 0;
    double largest_difference = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      largest_move = std::max(largest_move, std::abs(double{expected[i]} - before[i]));
      largest_difference = std::max(largest_difference, std::abs(double{expected[i]} - parameters[0][i]));
    }
    // Terms per gradient element: the batch, times the positions of a convolution (24 x 24 in lenet5's
    // first).
    const double terms = batch * ranks * (model == "lenet5" ? 28.0 * 28.0 : 1.0);
    const double tolerance = std::sqrt(terms) * std::numeric_limits<float>::epsilon() * kSteps * largest_move;
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
  const std::vector<Variant> variants{
      {"ddp", "ddp", {}},
      {"replicated", "replicated", {}},
      {"sharded", "sharded", {}},
      {"sharded_after_backward", "sharded", {.bucket_mb = 0.01, .overlap = false}},
      {"parameter_server", "parameter_server", {}},
      {"parameter_server_at_rank_0",
       "parameter_server",
       {.bucket_mb = 0.01, .parameter_owners = strategies::ParameterOwners::kRank0}},
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
