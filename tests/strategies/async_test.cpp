#include <cmath>
#include <mutex>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/store.h"
#include "lockstep/launch/threads.h"
#include "lockstep/strategies/gradient_server.h"

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

using strategies::Consistency;
using strategies::GradientServer;
using strategies::MessageChannel;
using strategies::Notice;
using strategies::ParameterOwners;

test::ReplicaChoice choice_of(Consistency consistency, ParameterOwners owners = ParameterOwners::kSharded) {
  return {.model = "lenet5",
          .strategy = "parameter_server",
          .strategy_options = {.bucket_mb = 0.05, .parameter_owners = owners, .consistency = consistency}};
}

double measured_as(const test::TrainedReplica& replica, const std::string& name,
                   strategies::Measured::Over over) {
  for (const strategies::Measured& one : replica.strategy->measured()) {
    if (one.name == name && one.over == over) return one.value;
  }
  ADD_FAILURE() << name;
  return -1;
}

/// Rank 1 as a worker of rank 0's server, message by message.
class Worker {
 public:
  explicit Worker(MessageChannel& channel) : channel_(channel) {}

  void send_gradient(int64_t bucket, int64_t number, int64_t elements) {
    notify({Notice::kGradient, bucket, number});
    const at::Tensor gradient = at::full({elements}, 1.0F);
    channel_
        .send(comm::host_buffer(gradient.data_ptr<float>(), static_cast<size_t>(elements)), 0,
              Notice::kGradientTag)
        ->wait();
  }

  std::vector<float> fetch(size_t elements) {
    std::vector<float> values(elements);
    const auto received = channel_.receive(comm::host_buffer(values.data(), elements), 0, Notice::kValuesTag);
    notify({Notice::kFetch});
    received->wait();
    return values;
  }

  void done() { notify({Notice::kDone}); }

 private:
  void notify(Notice notice) {
    channel_.send(comm::host_buffer(notice.words.data(), 3), 0, Notice::kNoticeTag)->wait();
  }

  MessageChannel& channel_;
};

const replica::SgdOptions kPlain{.learning_rate = 1, .momentum = 0, .weight_decay = 0};

TEST(GradientServerTest, staleness_counts_updates_of_the_bucket_since_the_workers_fetch) {
  test::with_thread_ranks(2, [](comm::Communicator& group) {
    MessageChannel channel(group);
    if (group.rank() == 1) {
      Worker worker(channel);
      EXPECT_EQ(worker.fetch(5), std::vector<float>(5, 0));
      group.barrier()->wait();
      // Rank 0 updates the first bucket three times and the second once.
      group.barrier()->wait();
      worker.send_gradient(0, 0, 2);
      worker.send_gradient(1, 0, 3);
      EXPECT_EQ(worker.fetch(5), (std::vector<float>{-4, -4, -2, -2, -2}));
      worker.send_gradient(1, 1, 3);
      worker.done();
      group.barrier()->wait();
      channel.close();
      return;
    }
    GradientServer server(channel, at::zeros({5}), {{0, 2}, {2, 5}}, kPlain);
    const at::Tensor own = at::zeros({5});
    server.open();
    server.fetch(own);
    group.barrier()->wait();
    for (int i = 0; i < 3; ++i) server.apply(0, i, at::full({2}, 1.0F));
    server.apply(1, 0, at::full({3}, 1.0F));
    EXPECT_EQ(server.counts().staleness_most, 2);
    group.barrier()->wait();
    server.wait_until_done();
    // 0 + 1 + 2 and 0 of its own; 3, 1 and 0 of the worker's.
    EXPECT_EQ(server.counts().applied, 7);
    EXPECT_EQ(server.counts().staleness_sum, 7);
    EXPECT_EQ(server.counts().staleness_most, 3);
    server.fetch(own);
    EXPECT_EQ(own[4].item<float>(), -3);
    group.barrier()->wait();
    server.stop();
    channel.close();
  });
}

TEST(GradientServerTest, a_gradient_that_comes_twice_is_refused) {
  test::with_thread_ranks(2, [](comm::Communicator& group) {
    MessageChannel channel(group);
    if (group.rank() == 1) {
      Worker worker(channel);
      worker.send_gradient(0, 0, 2);
      worker.send_gradient(0, 0, 2);
      group.barrier()->wait();
      channel.close();
      return;
    }
    GradientServer server(channel, at::zeros({2}), {{0, 2}}, kPlain);
    server.open();
    EXPECT_THROW(server.wait_until_done(), Error);
    EXPECT_THROW(server.check(), Error);
    EXPECT_EQ(server.counts().applied, 1);
    group.barrier()->wait();
    server.stop();
    channel.close();
  });
}

class AsyncTest : public testing::TestWithParam<int> {};

// Each trains another number of steps, so whoever is done first must go on serving the others.
TEST_P(AsyncTest, every_gradient_is_applied_and_all_end_with_the_same_values) {
  const int ranks = GetParam();
  for (const ParameterOwners owners : {ParameterOwners::kSharded, ParameterOwners::kRank0}) {
    std::mutex mutex;
    double sent = 0, applied = 0;
    std::vector<std::vector<float>> ends;
    test::with_thread_ranks(ranks, [&](comm::Communicator& group) {
      test::TrainedReplica replica = test::make_replica(choice_of(Consistency::kAsync, owners), &group);
      const std::vector<float> before = replica.parameters();
      // Twice, because further steps may follow a finish.
      replica.train(3 + 2 * group.rank());
      replica.train(2);
      group.barrier()->wait();
      const std::lock_guard lock(mutex);
      sent += measured_as(replica, "gradients_sent", strategies::Measured::Over::kJob);
      applied += measured_as(replica, "gradients_applied", strategies::Measured::Over::kJob);
      ends.push_back(replica.parameters());
      EXPECT_NE(ends.back(), before);
    });
    int steps = 0;
    for (int rank = 0; rank < ranks; ++rank) steps += 5 + 2 * rank;
    EXPECT_EQ(sent, applied);
    EXPECT_GE(applied, 5 * steps);
    EXPECT_EQ(static_cast<int>(applied) % steps, 0);
    for (const std::vector<float>& end : ends) EXPECT_EQ(end, ends.front());
  }
}

INSTANTIATE_TEST_SUITE_P(ranks, AsyncTest, testing::Values(1, 2, 3, 4, 7));

TEST(AsyncTest, alone_it_is_the_synchronous_one) {
  test::with_thread_ranks(1, [](comm::Communicator& group) {
    test::TrainedReplica sync = test::make_replica(choice_of(Consistency::kSync), &group);
    test::TrainedReplica async = test::make_replica(choice_of(Consistency::kAsync), &group);
    sync.train(5);
    async.train(5);
    EXPECT_EQ(sync.parameters(), async.parameters());
    EXPECT_EQ(measured_as(async, "staleness", strategies::Measured::Over::kMost), 0);
    EXPECT_EQ(sync.strategy->momentum_bytes(), async.strategy->momentum_bytes());
  });
}

// With a rate this small what a step does to the next gradient is of second order, and the move is linear in
// the gradients. What n updates with gradient g move: g * rate * sum over j <= n of (1 + m + ... + m^(j-1)).
TEST(AsyncTest, all_ranks_together_move_as_far_as_the_synchronous_one) {
  const auto moves = [](Consistency consistency) {
    std::vector<float> moved;
    test::with_thread_ranks(2, [&](comm::Communicator& group) {
      test::ReplicaChoice choice = choice_of(consistency);
      choice.learning_rate = 1e-4;
      test::TrainedReplica replica = test::make_replica(choice, &group);
      const std::vector<float> before = replica.parameters();
      replica.train(10);
      const std::vector<float> after = replica.parameters();
      if (group.rank() != 0) return;
      for (size_t i = 0; i < after.size(); ++i) moved.push_back(after[i] - before[i]);
    });
    return moved;
  };
  const std::vector<float> sync = moves(Consistency::kSync);
  const std::vector<float> async = moves(Consistency::kAsync);
  const double size = std::sqrt(std::inner_product(sync.begin(), sync.end(), sync.begin(), 0.0));
  const double along = std::inner_product(sync.begin(), sync.end(), async.begin(), 0.0) / size;
  const auto moved_by = [](int updates) {
    double sum = 0;
    for (int j = 1; j <= updates; ++j) sum += (1 - std::pow(0.9, j)) / (1 - 0.9);
    return sum;
  };
  EXPECT_NEAR(along / size, moved_by(20) / 2 / moved_by(10), 0.1);
}

// Rank 0 leaves while its server waits for rank 1 and its gradients may be on their way. The time-out is
// longer than this test may take.
TEST(AsyncTest, ends_within_a_step_without_waiting_for_others) {
  comm::HashStore store;
  launch::run_threads(2, [&](int rank) {
    const auto group = comm::connect(
        "thread",
        {.rank = rank, .size = 2, .store = &store, .timeout = comm::Duration(600), .interface = ""});
    test::TrainedReplica replica = test::make_replica(choice_of(Consistency::kAsync), group.get());
    replica.train(2);
    group->barrier()->wait();
    replica.strategy->begin_step();
    group->barrier()->wait();
    if (rank == 0) {
      const inputs::Batch& batch = replica.input->next();
      models::cross_entropy(replica.model->forward(batch.images, {.training = true}), batch.labels)
          .backward();
      replica.strategy.reset();
    }
    group->barrier()->wait();
  });
}

}  // namespace
}  // namespace lockstep
