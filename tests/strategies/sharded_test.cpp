#include <array>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/ones.h>

#include "lockstep/base/error.h"
#include "lockstep/strategies/units.h"
#include "lockstep/train/rows/row_trainee.h"

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

using strategies::Shard;

constexpr std::array kStages{Shard::kOptimizer, Shard::kGradients, Shard::kParameters};

strategies::StrategyOptions options_of(Shard shard, double unit_mb, strategies::StrategyOptions others = {}) {
  others.shard = shard;
  others.bucket_mb = others.unit_mb = unit_mb;
  return others;
}

class ShardedTest : public testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }

  /// Rank 0's parameters after some steps.
  std::vector<float> train(test::ReplicaChoice choice) const {
    choice.strategy = "sharded";
    std::vector<float> parameters;
    test::with_thread_ranks(ranks(), [&](comm::Communicator& group) {
      test::TrainedReplica replica = test::make_replica(choice, &group);
      replica.train(2);
      // Goes on after its parameters were there to be read.
      replica.train(2);
      if (group.rank() == 0) parameters = replica.parameters();
    });
    return parameters;
  }
};

TEST_P(ShardedTest, all_stages_end_in_the_same_bits) {
  for (const int accumulate : {1, 2}) {
    std::vector<std::vector<float>> ends;
    for (const Shard shard : kStages) {
      for (const int ahead : {0, 2}) {
        for (const bool overlap : {true, false}) {
          ends.push_back(train(
              {.model = "lenet5",
               .accumulate = accumulate,
               .strategy_options = options_of(shard, 0.02, {.overlap = overlap, .prefetch_units = ahead})}));
        }
      }
    }
    ASSERT_FALSE(ends.front().empty());
    for (const auto& end : ends) EXPECT_EQ(end, ends.front()) << accumulate;
  }
}

/// A rank's values after some steps of a row.
std::vector<float> trained_row(Shard shard, const std::string& precision, const std::string& kernels,
                               int ranks) {
  train::SweepOptions sweep;
  sweep.models = {"resnet20"};
  sweep.batches = {4};
  sweep.ranks = {ranks};
  sweep.strategies = {"sharded"};
  sweep.precisions = {precision};
  sweep.kernels = {kernels};
  sweep.common.grad_clip = 0.1;
  sweep.controls = false;
  train::RowPlan row = train::plan_rows(sweep).front();
  row.parsed_options = options_of(shard, 0.1);
  row.bucket_mb = 0.1;
  std::vector<float> values;
  test::with_thread_ranks(ranks, [&](comm::Communicator& group) {
    train::RowTrainee trainee(row, &group);
    launch::Progress progress;
    for (int step = 0; step < 3; ++step) trainee.train_one_more(progress);
    if (group.rank() == 0) values = trainee.values();
  });
  return values;
}

// Clipped, and in bf16 gathered in bf16, which the network rounds to anyway.
TEST_P(ShardedTest, residual_networks_end_in_the_same_bits_in_every_precision) {
  for (const char* precision : {"fp32", "bf16"}) {
    for (const char* kernels : {"aten", "fused"}) {
      const std::vector<float> expected = trained_row(Shard::kOptimizer, precision, kernels, ranks());
      ASSERT_FALSE(expected.empty());
      EXPECT_EQ(trained_row(Shard::kGradients, precision, kernels, ranks()), expected)
          << precision << kernels;
      EXPECT_EQ(trained_row(Shard::kParameters, precision, kernels, ranks()), expected)
          << precision << kernels;
    }
  }
}

TEST_P(ShardedTest, any_stage_continues_from_any_with_the_same_bits) {
  for (const Shard from : kStages) {
    for (const Shard to : kStages) {
      test::with_thread_ranks(ranks(), [&](comm::Communicator& group) {
        const auto choice = [](Shard shard) {
          return test::ReplicaChoice{
              .model = "lenet5", .strategy = "sharded", .strategy_options = options_of(shard, 0.05)};
        };
        test::TrainedReplica before = test::make_replica(choice(from), &group);
        before.train(2);
        replica::State state;
        before.strategy->save(state);
        test::TrainedReplica after;
        after.model = models::registry().get("lenet5").create({});
        after.communicator = &group;
        for (size_t i = 0; i < before.model->parameters().trainable().size(); ++i) {
          const at::NoGradGuard no_grad;
          after.model->parameters().trainable()[i].value.copy_(
              before.model->parameters().trainable()[i].value);
        }
        after.strategy =
            strategies::registry().get("sharded").create({.parameters = after.model->parameters(),
                                                          .optimizer = {.learning_rate = 0.05},
                                                          .communicator = &group,
                                                          .options = choice(to).strategy_options});
        after.strategy->restore(state);
        // Both on the batches that a new input begins with.
        before.input = std::move(test::make_replica(choice(from), &group).input);
        after.input = std::move(test::make_replica(choice(from), &group).input);
        before.train(2);
        after.train(2);
        EXPECT_EQ(after.parameters(), before.parameters());
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ranks, ShardedTest, testing::Values(1, 2, 3, 4));

TEST(ShardedStateTest, shards_of_other_buckets_are_refused) {
  test::with_thread_ranks(2, [](comm::Communicator& group) {
    const auto made = [&](double bucket_mb) {
      return test::make_replica({.model = "lenet5",
                                 .strategy = "sharded",
                                 .strategy_options = options_of(Shard::kOptimizer, bucket_mb)},
                                &group);
    };
    test::TrainedReplica small = made(0.05), large = made(25);
    replica::State state;
    small.strategy->save(state);
    EXPECT_THROW(large.strategy->restore(state), Error);
  });
}

// A prediction by the first step would gather too late what is used earlier.
TEST(ShardedUseTest, a_network_that_uses_parameters_in_another_order_is_refused) {
  test::with_thread_ranks(2, [](comm::Communicator& group) {
    replica::Parameters parameters(1, at::MemoryFormat::Contiguous);
    const at::Tensor a = parameters.add("layer1.weight", {300, 300}, replica::Init::normal(0.01));
    const at::Tensor b = parameters.add("layer2.weight", {300, 300}, replica::Init::normal(0.01));
    const auto strategy = strategies::registry().get("sharded").create(
        {.parameters = parameters, .communicator = &group, .options = options_of(Shard::kParameters, 0.1)});
    const auto step = [&](const at::Tensor& first, const at::Tensor& second) {
      strategy->begin_step();
      const at::Tensor loss = at::ones({2, 300}).matmul(first).matmul(second).sum();
      strategy->before_backward(true);
      loss.backward();
      strategy->combine();
      strategy->apply();
    };
    step(a, b);
    step(a, b);
    EXPECT_THROW(step(b, a), Error);
  });
}

std::vector<std::vector<std::string>> names_in_units(
    const std::vector<std::pair<std::string, int64_t>>& sizes, int64_t cap_bytes) {
  std::vector<replica::NamedTensor> parameters;
  for (const auto& [name, size] : sizes) parameters.push_back({name, at::ones({size})});
  std::vector<std::vector<std::string>> units;
  for (const auto& unit : strategies::plan_units(parameters, cap_bytes)) {
    units.emplace_back();
    for (const size_t index : unit) units.back().push_back(parameters[index].name);
  }
  return units;
}

TEST(UnitsTest, are_blocks_of_the_network_or_neighbors_below_the_cap) {
  const std::vector<std::pair<std::string, int64_t>> sizes{{"conv1.weight", 10},
                                                           {"bn1.weight", 10},
                                                           {"layer1.0.conv1.weight", 60},
                                                           {"layer1.0.conv2.weight", 60},
                                                           {"layer1.1.conv1.weight", 60},
                                                           {"fc.weight", 20},
                                                           {"fc.bias", 1}};
  EXPECT_EQ(names_in_units(sizes, 4 * 120),
            (std::vector<std::vector<std::string>>{{"fc.bias", "fc.weight", "layer1.1.conv1.weight"},
                                                   {"layer1.0.conv2.weight", "layer1.0.conv1.weight"},
                                                   {"bn1.weight", "conv1.weight"}}));
  // A block above the cap is divided in layers.
  EXPECT_EQ(names_in_units(sizes, 4 * 100),
            (std::vector<std::vector<std::string>>{{"fc.bias", "fc.weight", "layer1.1.conv1.weight"},
                                                   {"layer1.0.conv2.weight"},
                                                   {"layer1.0.conv1.weight", "bn1.weight", "conv1.weight"}}));
  // What is ready last is small.
  EXPECT_EQ(names_in_units({{"a.weight", 1 << 18}, {"b.weight", 1 << 18}, {"c.weight", 1}}, 1 << 30),
            (std::vector<std::vector<std::string>>{{"c.weight", "b.weight"}, {"a.weight"}}));
}

}  // namespace
}  // namespace lockstep
