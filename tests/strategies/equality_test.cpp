#include <array>
#include <cmath>
#include <limits>
#include <mutex>

#include <gtest/gtest.h>

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

constexpr int kSteps = 5;
/// A maximum or a ReLU that rounding turns over changes a gradient by as much as one sample's part. That
/// happens by chance, so it does not at both of these learning rates.
constexpr std::array kRates{0.04, 0.03};

/// Parameters of every rank after kSteps steps.
std::vector<std::vector<float>> train_ranks(const test::ReplicaChoice& choice, int ranks,
                                            int steps = kSteps) {
  std::vector<std::vector<float>> parameters(static_cast<size_t>(ranks));
  test::with_thread_ranks(ranks, [&](comm::Communicator& communicator) {
    test::TrainedReplica replica = test::make_replica(choice, &communicator);
    replica.train(steps);
    parameters[static_cast<size_t>(communicator.rank())] = replica.parameters();
  });
  return parameters;
}

/// A strategy with options that change what it does.
struct Variant {
  std::string name;
  std::string strategy;
  strategies::StrategyOptions options;
  /// Roundings beyond those in the sums of gradients.
  enum Rounding { kNothing, kAveraged, kFp16, kBf16 } rounding = kNothing;
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

  struct Training {
    std::string model;
    int steps;
    int accumulate;
  };

  struct Agreement {
    double difference = 0;
    double tolerance = 0;
    double move = 0;
  };

  /// With one rank on the batches of all ranks at once, at one of the learning rates.
  void expect_smooth_agreement(const Training& training) const {
    Agreement found;
    for (const double rate : kRates) {
      found = agreement(training, rate);
      if (found.difference <= found.tolerance) break;
    }
    ASSERT_GT(found.move, 0);
    EXPECT_LE(found.difference, found.tolerance) << training.model;
    // Not trained at all, or on other samples, the ranks would be off by about the move itself.
    EXPECT_LT(found.tolerance, found.move / 20);
  }

 private:
  static Agreement agreement(const Training& training, double rate) {
    const int ranks = GetParam().ranks;
    const int batch = 4;
    const auto parameters = train_ranks({.model = training.model,
                                         .strategy = GetParam().variant.strategy,
                                         .batch = batch,
                                         .accumulate = training.accumulate,
                                         .learning_rate = rate,
                                         .strategy_options = GetParam().variant.options},
                                        ranks, training.steps);
    const int joint_batch = batch * ranks * training.accumulate;
    test::TrainedReplica joint = test::make_replica(
        {.model = training.model, .strategy = "single", .batch = joint_batch, .learning_rate = rate},
        nullptr);
    const std::vector<float> before = joint.parameters();
    joint.train(training.steps);
    const std::vector<float> expected = joint.parameters();
    EXPECT_EQ(expected.size(), parameters[0].size());

    Agreement found;
    double largest_value = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      found.move = std::max(found.move, std::abs(double{expected[i]} - before[i]));
      largest_value = std::max(largest_value, std::abs(double{expected[i]}));
      found.difference = std::max(found.difference, std::abs(double{expected[i]} - parameters[0][i]));
    }
    constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
    // Terms per gradient element: the images, times the places of a convolution (28 x 28 in lenet5's
    // first).
    const double terms = joint_batch * (training.model == "lenet5" ? 28.0 * 28.0 : 1.0);
    found.tolerance = std::sqrt(terms) * kEpsilon * training.steps * found.move;
    if (GetParam().variant.rounding == Variant::kAveraged) {
      // Not only the move is summed over the ranks, but the parameters themselves.
      found.tolerance += std::sqrt(ranks) * kEpsilon * training.steps * largest_value;
    }
    const bool fp16 = GetParam().variant.rounding == Variant::kFp16;
    if (fp16 || GetParam().variant.rounding == Variant::kBf16) {
      // lockstep/train/verify/verify.h derives it.
      const double roundings = std::sqrt(0.5 * ranks * training.steps);
      found.tolerance += roundings * (fp16 ? 0x1p-11 : 0x1p-8) * found.move;
    }
    return found;
  }
};

TEST_P(EqualityTest, replicas_have_the_same_bits_after_training) {
  const int ranks = GetParam().ranks;
  // More of the larger network would take most of the time of all tests.
  const auto parameters = train_ranks(ranks == 2 ? choice("resnet18", 2, 32) : choice("lenet5", 2), ranks);
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
  for (const std::string model : {"mlp", "lenet5"}) {
    expect_smooth_agreement({.model = model, .steps = kSteps, .accumulate = 1});
  }
}

// Two steps of two micro-batches see the samples of two steps of twice the batch.
TEST_P(EqualityTest, accumulated_micro_batches_agree_with_one_batch_of_all) {
  expect_smooth_agreement({.model = "mlp", .steps = 2, .accumulate = 2});
}

TEST_P(EqualityTest, the_same_seed_gives_the_same_bits_again) {
  const int ranks = GetParam().ranks;
  EXPECT_EQ(train_ranks(choice("lenet5", 4), ranks)[0], train_ranks(choice("lenet5", 4), ranks)[0]);
}

std::vector<Case> all_cases() {
  using strategies::BspSync;
  using strategies::Exchange;
  using strategies::Wire;
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
      {"bsp_asa_bf16", "bsp", {.wire = Wire::kBf16, .exchange = Exchange::kAsa32}, kBf16},
      {"ddp_fp16", "ddp", {.wire = Wire::kFp16}, kFp16},
      {"ddp_bf16", "ddp", {.bucket_mb = 0.1, .wire = Wire::kBf16}, kBf16},
      {"replicated_fp16", "replicated", {.bucket_mb = 0.1, .wire = Wire::kFp16}, kFp16},
      {"replicated_bf16", "replicated", {.overlap = false, .wire = Wire::kBf16}, kBf16},
      {"horovod_fp16", "horovod", {.wire = Wire::kFp16, .deterministic = true}, kFp16},
  };
  // Numbers of ranks matter to how a strategy divides its tensors; variants of one divide them alike.
  std::vector<Case> cases;
  for (const Variant& variant : variants) {
    const std::vector<int> all_counts{1, 2, 3, 4, 7};
    const std::vector<int> few_counts{2, 3};
    for (const int ranks : variant.name == variant.strategy ? all_counts : few_counts)
      cases.push_back({variant, ranks});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(all, EqualityTest, testing::ValuesIn(all_cases()), [](const auto& named) {
  return named.param.variant.name + "_" + std::to_string(named.param.ranks);
});

TEST(InFlightTest, all_reduces_at_the_same_time_change_no_bit) {
  std::vector<std::vector<float>> by_lanes;
  for (const int in_flight : {1, 2, 4}) {
    strategies::StrategyOptions options;
    // lenet5 in about ten buckets.
    options.bucket_mb = 0.02;
    options.in_flight = in_flight;
    const auto parameters = train_ranks(
        {.model = "lenet5", .strategy = "replicated", .batch = 2, .strategy_options = options}, 4);
    EXPECT_EQ(parameters[0], parameters[3]) << in_flight;
    by_lanes.push_back(parameters[0]);
  }
  EXPECT_EQ(by_lanes[0], by_lanes[1]);
  EXPECT_EQ(by_lanes[0], by_lanes[2]);
}

}  // namespace
}  // namespace lockstep
