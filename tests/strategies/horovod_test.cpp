#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <memory>
#include <semaphore>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/forwarding_communicator.h"
#include "lockstep/comm/store.h"
#include "lockstep/launch/threads.h"
#include "lockstep/strategies/buckets.h"
#include "lockstep/strategies/negotiator.h"

#include "strategies/recording_communicator.h"
#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

using strategies::Fusion;
using strategies::Negotiator;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

void wait_for(comm::Work& work) {
  work.wait();
}

/// The tensors that every rank announced in each cycle. announced[rank][cycle].
using Cycles = std::vector<std::vector<size_t>>;

std::vector<Cycles> negotiate(const std::vector<Cycles>& announced) {
  std::vector<Cycles> told(announced.size());
  test::with_thread_ranks(static_cast<int>(announced.size()), [&](comm::Communicator& group) {
    const auto rank = static_cast<size_t>(group.rank());
    Negotiator negotiator(group, {"a", "b", "c"}, &wait_for);
    for (const auto& cycle : announced[rank]) told[rank].push_back(negotiator.negotiate(cycle));
  });
  return told;
}

TEST(NegotiatorTest, a_tensor_is_told_when_the_last_rank_has_announced_it) {
  // First by name, then by the cache.
  const std::vector<Cycles> told = negotiate({{{0, 1}, {}, {2}, {1}, {0, 2}, {}},
                                              {{0}, {1, 2}, {}, {0, 1}, {}, {2}},
                                              {{0, 1, 2}, {}, {}, {2}, {1, 0}, {}}});
  for (const Cycles& rank : told) {
    EXPECT_THAT(rank[0], ElementsAre(0u));
    EXPECT_THAT(rank[1], ElementsAre(1u));
    EXPECT_THAT(rank[2], ElementsAre(2u));
    EXPECT_THAT(rank[3], ElementsAre());
    EXPECT_THAT(rank[4], ElementsAre(0u, 1u));
    EXPECT_THAT(rank[5], ElementsAre(2u));
  }
}

TEST(NegotiatorTest, ranks_that_announce_in_different_orders_are_told_one) {
  const std::vector<Cycles> told = negotiate({{{2}, {0}, {1}}, {{1}, {2}, {0}}, {{0}, {1}, {2}}});
  for (const Cycles& rank : told) {
    EXPECT_EQ(rank, told[0]);
    EXPECT_THAT(rank[2], UnorderedElementsAre(0u, 1u, 2u));
  }
}

TEST(NegotiatorTest, what_is_in_the_cache_is_not_asked_for_again) {
  test::with_thread_ranks(3, [&](comm::Communicator& group) {
    test::RecordingCommunicator recording(group);
    Negotiator negotiator(recording, {"a", "b", "c"}, &wait_for);
    negotiator.negotiate({0, 1, 2});
    EXPECT_GT(recording.calls().size(), 1u);
    recording.forget();
    EXPECT_THAT(negotiator.negotiate({2, 1}), UnorderedElementsAre(1u, 2u));
    EXPECT_THAT(recording.calls(), ElementsAre(test::Call{"all_reduce", 4}));
  });
}

TEST(NegotiatorTest, a_name_that_another_rank_does_not_have_is_refused) {
  EXPECT_THROW(test::with_thread_ranks(2,
                                       [&](comm::Communicator& group) {
                                         const std::string own = "of rank " + std::to_string(group.rank());
                                         Negotiator negotiator(group, {own}, &wait_for);
                                         negotiator.negotiate({0});
                                       }),
               CommError);
}

TEST(FusionTest, neighbours_are_packed_and_a_fixed_pack_waits_for_all_of_it) {
  replica::Parameters parameters(1, at::MemoryFormat::Contiguous);
  for (const int64_t size : {10, 20, 30, 100, 5}) {
    parameters.add("p" + std::to_string(size), {size}, replica::Init::constant(1));
  }
  const replica::FlatMemory memory(parameters, {0, 1, 2, 3, 4});
  const auto ranges = [](const std::vector<replica::Range>& packs) {
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const replica::Range& range : packs) pairs.emplace_back(range.begin, range.end);
    return pairs;
  };
  using Pair = std::pair<int64_t, int64_t>;

  Fusion free(memory, 4 * 40, false);
  EXPECT_THAT(ranges(free.packs_of({2, 0, 1})), ElementsAre(Pair(0, 30), Pair(30, 60)));
  EXPECT_THAT(ranges(free.packs_of({4, 0, 3})), ElementsAre(Pair(0, 10), Pair(60, 160), Pair(160, 165)));

  Fusion fixed(memory, 4 * 40, true);
  for (int step = 0; step < 2; ++step) {
    EXPECT_THAT(ranges(fixed.packs_of({1, 3})), ElementsAre(Pair(60, 160)));
    EXPECT_THAT(ranges(fixed.packs_of({4})), ElementsAre(Pair(160, 165)));
    EXPECT_THAT(ranges(fixed.packs_of({2, 0})), ElementsAre(Pair(30, 60), Pair(0, 30)));
  }
}

TEST(HorovodTest, negotiation_is_measured_and_a_long_cycle_negotiates_less) {
  constexpr int kTimedSteps = 5;
  test::with_thread_ranks(2, [&](comm::Communicator& group) {
    test::TrainedReplica replica = test::make_replica({.model = "resnet18",
                                                       .strategy = "horovod",
                                                       .batch = 2,
                                                       .image_size = 32,
                                                       .strategy_options = {.cycle_ms = 1e5}},
                                                      &group);
    replica.train(kTimedSteps);
    const auto measured = replica.strategy->measured();
    ASSERT_EQ(measured.size(), 3u);
    EXPECT_EQ(measured[0].name, "negotiation_s");
    EXPECT_GT(measured[0].value, 0);
    // One as the first gradient is ready, and one for the rest, which ends the cycle early.
    EXPECT_EQ(measured[1].name, "cycles");
    EXPECT_GE(measured[1].value, kTimedSteps);
    EXPECT_LE(measured[1].value, 2 * kTimedSteps);
    EXPECT_EQ(measured[2].name, "packs");
    EXPECT_GE(measured[2].value, kTimedSteps);
  });
}

// Rank 0 announces its gradients to a rank that is gone. The time-out is longer than this test may take.
TEST(HorovodTest, ends_within_a_step_without_waiting_for_others) {
  comm::HashStore store;
  launch::run_threads(2, [&](int rank) {
    const auto group = comm::connect(
        "thread",
        {.rank = rank, .size = 2, .store = &store, .timeout = comm::Duration(600), .interface = ""});
    test::TrainedReplica replica =
        test::make_replica({.model = "lenet5", .strategy = "horovod"}, group.get());
    replica.train(2);
    group->barrier()->wait();
    if (rank == 1) {
      // Stays until rank 0 has left, so that nobody's absence ends rank 0's wait.
      group->barrier()->wait();
      return;
    }
    replica.strategy->begin_step();
    const inputs::Batch& batch = replica.input->next();
    models::cross_entropy(replica.model->forward(batch.images, {}), batch.labels).backward();
    replica.strategy.reset();
    group->barrier()->wait();
  });
}

/// An operation that another rank never joins.
class NeverDone final : public comm::Work {
 public:
  bool test() override { return false; }
  void wait(comm::Duration timeout) override { std::this_thread::sleep_for(timeout); }
  void wait() override { wait(comm::Duration(600)); }
  void on_complete(std::function<void()> /*done*/) override {}
};

/// From arm() on, tells when a sum is asked for, and on one rank keeps it back.
class HoldingCommunicator final : public comm::ForwardingCommunicator {
 public:
  HoldingCommunicator(comm::Communicator& real, bool holds) : ForwardingCommunicator(real), holds_(holds) {}

  void arm() { armed_ = true; }
  void wait_for_sum() { asked_.acquire(); }

  comm::WorkPtr issue(const comm::Collective& collective) override {
    if (!armed_ || collective.kind != comm::Collective::Kind::kAllReduce) return real_.issue(collective);
    comm::WorkPtr work = holds_ ? std::make_unique<NeverDone>() : real_.issue(collective);
    asked_.release();
    return work;
  }

 private:
  const bool holds_;
  std::atomic<bool> armed_ = false;
  std::counting_semaphore<> asked_{0};
};

// A sanitizer sees it where the sum, which ends with the communicator, uses anything of a strategy that is
// gone.
TEST(HorovodTest, a_sum_that_outlives_the_strategy_uses_nothing_of_it) {
  comm::HashStore store;
  std::barrier both(2);
  launch::run_threads(2, [&](int rank) {
    auto group = comm::connect(
        "thread",
        {.rank = rank, .size = 2, .store = &store, .timeout = comm::Duration(600), .interface = ""});
    HoldingCommunicator holding(*group, rank == 1);
    test::TrainedReplica replica = test::make_replica({.model = "lenet5", .strategy = "horovod"}, &holding);
    replica.train(2);
    holding.arm();
    replica.strategy->begin_step();
    const inputs::Batch& batch = replica.input->next();
    models::cross_entropy(replica.model->forward(batch.images, {}), batch.labels).backward();
    holding.wait_for_sum();
    replica.strategy.reset();
    both.arrive_and_wait();
    group.reset();
  });
}

}  // namespace
}  // namespace lockstep
