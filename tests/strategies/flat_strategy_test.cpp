#include <cstdlib>
#include <map>

#include <gtest/gtest.h>

#include "lockstep/comm/forwarding_communicator.h"

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

/// A communicator with memory of its own.
class CommunicatorWithMemory final : public comm::ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;

  std::shared_ptr<void> allocate(size_t bytes) override {
    void* const memory = std::malloc(bytes);
    live_[memory] = bytes;
    ++allocations_;
    return {memory, [this](void* address) {
              live_.erase(address);
              std::free(address);
            }};
  }

  bool holds(const void* address) const {
    for (const auto& [begin, bytes] : live_) {
      const auto* const first = static_cast<const char*>(begin);
      if (address >= first && address < first + bytes) return true;
    }
    return false;
  }
  size_t live() const { return live_.size(); }
  int allocations() const { return allocations_; }

 private:
  std::map<void*, size_t> live_;
  int allocations_ = 0;
};

class FlatStrategyTest : public testing::TestWithParam<const char*> {};

TEST_P(FlatStrategyTest, gradients_are_in_the_communicators_memory_as_long_as_the_strategy_lives) {
  test::with_thread_ranks(2, [](comm::Communicator& group) {
    const test::ReplicaChoice choice{.strategy = GetParam()};
    test::TrainedReplica plain = test::make_replica(choice, &group);
    plain.train(4);
    EXPECT_EQ(plain.strategy->foreign_bytes(), 0);
    CommunicatorWithMemory communicator(group);
    {
      test::TrainedReplica own = test::make_replica(choice, &communicator);
      own.train(4);
      EXPECT_EQ(own.parameters(), plain.parameters());
      for (const at::Tensor& parameter : own.model->parameters().tensors()) {
        EXPECT_TRUE(communicator.holds(parameter.grad().const_data_ptr()));
      }
      // One, or one per unit.
      EXPECT_GE(communicator.live(), 1u);
      EXPECT_GE(own.strategy->foreign_bytes(), 4 * own.model->parameters().count());
      own.strategy.reset();
      EXPECT_EQ(communicator.live(), 0u);
      EXPECT_FALSE(own.model->parameters().tensors().front().grad().defined());
    }
    // replicated takes the order of gradients after the first step.
    EXPECT_GE(communicator.allocations(), 1);
  });
}

INSTANTIATE_TEST_SUITE_P(Strategies, FlatStrategyTest,
                         testing::Values("replicated", "sharded", "parameter_server", "local_sgd"),
                         [](const auto& named) { return std::string(named.param); });

TEST(InFlightTest, all_reduces_at_the_same_time_change_no_bit) {
  std::vector<std::vector<float>> by_lanes;
  for (const int in_flight : {1, 2, 4}) {
    strategies::StrategyOptions options;
    // lenet5 in about ten buckets.
    options.bucket_mb = 0.02;
    options.in_flight = in_flight;
    std::vector<std::vector<float>> parameters(4);
    test::with_thread_ranks(4, [&](comm::Communicator& communicator) {
      test::TrainedReplica replica = test::make_replica(
          {.model = "lenet5", .strategy = "replicated", .batch = 2, .strategy_options = options},
          &communicator);
      replica.train(3);
      parameters[static_cast<size_t>(communicator.rank())] = replica.parameters();
    });
    EXPECT_EQ(parameters[0], parameters[3]) << in_flight;
    by_lanes.push_back(parameters[0]);
  }
  EXPECT_EQ(by_lanes[0], by_lanes[1]);
  EXPECT_EQ(by_lanes[0], by_lanes[2]);
}

}  // namespace
}  // namespace lockstep
