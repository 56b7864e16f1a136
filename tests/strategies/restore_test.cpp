#include <gtest/gtest.h>

#include "strategies/recording_communicator.h"
#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

class RestoreTest : public testing::TestWithParam<const char*> {};

// Sums are rounded by where a gradient lies, so the buckets must be the same from the first step on.
TEST_P(RestoreTest, the_first_step_sends_what_the_next_one_would_have_sent) {
  const test::ReplicaChoice choice{
      .model = "lenet5", .strategy = GetParam(), .strategy_options = {.bucket_mb = 0.05}};
  test::with_thread_ranks(2, [&](comm::Communicator& group) {
    test::RecordingCommunicator first(group);
    test::TrainedReplica before = test::make_replica(choice, &first);
    before.train(1);
    replica::State state;
    before.strategy->save(state);
    first.forget();
    before.train(1);

    test::RecordingCommunicator second(group);
    test::TrainedReplica after = test::make_replica(choice, &second);
    after.strategy->restore(state);
    second.forget();
    after.train(1);
    EXPECT_GE(first.calls().size(), 4U);
    EXPECT_EQ(first.calls(), second.calls());
  });
}

INSTANTIATE_TEST_SUITE_P(all, RestoreTest,
                         testing::Values("ddp", "replicated", "sharded", "parameter_server"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace lockstep
