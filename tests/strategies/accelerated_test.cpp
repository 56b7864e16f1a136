#include <gtest/gtest.h>

#include "strategies/trained_replica.h"
#include "train/host_accelerator.h"

namespace lockstep {
namespace {

using strategies::StrategyOptions;

/// A strategy with options that change what it does beside a device.
struct AcceleratedVariant {
  std::string name;
  std::string strategy;
  StrategyOptions options;
};

class AcceleratedTest : public testing::TestWithParam<AcceleratedVariant> {
 protected:
  /// Parameters of every rank after some steps, on a device with a queue of its own or without.
  static std::vector<std::vector<float>> train(bool accelerated,
                                               strategies::ParameterDevice parameter_device) {
    std::vector<std::vector<float>> parameters(3);
    test::with_thread_ranks(3, [&](comm::Communicator& group) {
      test::ReplicaChoice choice{
          .model = "lenet5", .strategy = GetParam().strategy, .strategy_options = GetParam().options};
      choice.strategy_options.bucket_mb = 0.05;
      choice.strategy_options.parameter_device = parameter_device;
      if (accelerated) choice.accelerator = std::make_shared<test::HostAccelerator>();
      test::TrainedReplica replica = test::make_replica(choice, &group);
      replica.train(4);
      parameters[static_cast<size_t>(group.rank())] = replica.parameters();
    });
    return parameters;
  }
};

TEST_P(AcceleratedTest, trains_to_the_same_bits_wherever_variables_are_kept) {
  using enum strategies::ParameterDevice;
  const auto expected = train(false, kGpu);
  EXPECT_EQ(expected, train(true, kGpu));
  EXPECT_EQ(expected, train(true, kCpu));
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, AcceleratedTest,
    testing::Values(AcceleratedVariant{"replicated", "replicated", {}},
                    AcceleratedVariant{"sharded", "sharded", {}},
                    AcceleratedVariant{"parameter_server", "parameter_server", {}},
                    AcceleratedVariant{"parameter_server_at_rank_0",
                                       "parameter_server",
                                       {.parameter_owners = strategies::ParameterOwners::kRank0}},
                    AcceleratedVariant{"bsp", "bsp", {}},
                    AcceleratedVariant{"diloco", "local_sgd", {.sync_every = 3, .outer_momentum = 0.9}},
                    AcceleratedVariant{"horovod", "horovod", {.deterministic = true}}),
    [](const auto& named) { return named.param.name; });

}  // namespace
}  // namespace lockstep
