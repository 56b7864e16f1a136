#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/clock.h"

#include "comm/rank_world.h"
#include "comm/typed_values.h"

namespace lockstep::comm {
namespace {

TEST(OrderingTest, collectives_in_flight_complete_in_the_order_issued) {
  RankWorld::get().run([](Communicator& comm) {
    constexpr int kInFlight = 12;
    std::vector<TypedValues> values;
    for (int i = 0; i < kInFlight; ++i) {
      values.push_back(TypedValues::whole_numbers(DType::kFloat32, 10 + size_t(i) * 1000, comm.rank() + i));
    }
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<int> completed;
    std::vector<WorkPtr> works;
    for (int i = 0; i < kInFlight; ++i) {
      works.push_back(comm.all_reduce(values[size_t(i)].buffer(), ReduceOp::kSum));
      works.back()->on_complete([&, i] {
        std::lock_guard lock(mutex);
        completed.push_back(i);
        changed.notify_all();
      });
    }
    // The last first: waiting for it must not need the others to be waited for.
    for (int i = kInFlight - 1; i >= 0; --i) works[size_t(i)]->wait();
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return completed.size() == kInFlight; });
      EXPECT_TRUE(std::is_sorted(completed.begin(), completed.end()));
    }
    for (int i = 0; i < kInFlight; ++i) {
      for (size_t k = 0; k < values[size_t(i)].count(); ++k) {
        double expected = 0;
        for (int rank = 0; rank < comm.size(); ++rank) expected += whole_number(rank + i, k);
        ASSERT_EQ(values[size_t(i)].get(k), expected);
      }
    }
  });
}

TEST(OrderingTest, different_collectives_mix) {
  RankWorld::get().run([](Communicator& comm) {
    int32_t sum = comm.rank() + 1;
    int32_t from_root = comm.rank() * 10;
    int64_t own = comm.rank() * 100;
    std::vector<int64_t> all(size_t(comm.size()));
    std::vector<WorkPtr> works;
    works.push_back(comm.all_reduce(host_buffer(&sum, 1), ReduceOp::kSum));
    works.push_back(comm.broadcast(host_buffer(&from_root, 1), comm.size() - 1));
    works.push_back(comm.barrier());
    works.push_back(comm.all_gather(host_buffer(&own, 1), host_buffer(all.data(), all.size())));
    for (const WorkPtr& work : works) work->wait();
    EXPECT_EQ(sum, comm.size() * (comm.size() + 1) / 2);
    EXPECT_EQ(from_root, (comm.size() - 1) * 10);
    for (int rank = 0; rank < comm.size(); ++rank) EXPECT_EQ(all[size_t(rank)], rank * 100);
  });
}

TEST(OrderingTest, run_comes_after_what_is_in_flight_and_meets_what_others_issue) {
  RankWorld::get().run([](Communicator& comm) {
    for (int round = 0; round < 20; ++round) {
      // In flight while the next one runs, in rounds that no rank's others share.
      std::vector<float> early(size_t(1 + 5000 * (round % 3)), float(comm.rank()));
      const Buffer early_buffer = host_buffer(early.data(), early.size());
      const WorkPtr work = comm.all_reduce(early_buffer, ReduceOp::kSum);
      if ((round + comm.rank()) % 2 == 0) work->wait();
      int64_t value = comm.rank() + round;
      const Buffer buffer = host_buffer(&value, 1);
      const Collective sum{Collective::Kind::kAllReduce, buffer, buffer};
      if ((round / 2 + comm.rank()) % 2 == 0) {
        comm.run(sum);
        EXPECT_TRUE(work->test());
      } else {
        comm.issue(sum)->wait();
      }
      const int ranks = comm.size();
      EXPECT_EQ(value, ranks * (ranks - 1) / 2 + round * ranks);
      EXPECT_EQ(early.back(), float(ranks * (ranks - 1) / 2));
    }
  });
}

TEST(OrderingTest, run_carries_out_every_kind) {
  RankWorld::get().run([](Communicator& comm) {
    using Kind = Collective::Kind;
    const int rank = comm.rank(), ranks = comm.size();
    const auto part_of = [&](std::vector<int32_t>& all) { return host_buffer(&all[size_t(rank)], 1); };
    std::vector<int32_t> parts(size_t(ranks), 10 + rank), gathered(size_t(ranks), -1), own{rank};
    const Buffer all = host_buffer(parts.data(), parts.size());
    const Buffer one = host_buffer(own.data(), 1);
    comm.run({Kind::kAllGather, one, host_buffer(gathered.data(), gathered.size())});
    for (int other = 0; other < ranks; ++other) EXPECT_EQ(gathered[size_t(other)], other);
    comm.run({Kind::kAllToAll, all, host_buffer(gathered.data(), gathered.size())});
    for (int other = 0; other < ranks; ++other) EXPECT_EQ(gathered[size_t(other)], 10 + other);
    comm.run({Kind::kBroadcast, one, one, ReduceOp::kSum, ranks - 1});
    EXPECT_EQ(own[0], ranks - 1);
    comm.run({Kind::kReduceScatter, all, part_of(parts)});
    EXPECT_EQ(parts[size_t(rank)], 10 * ranks + ranks * (ranks - 1) / 2);
    own[0] = rank;
    comm.run({Kind::kReduce, one, one, ReduceOp::kMax, 0});
    EXPECT_TRUE(rank != 0 || own[0] == ranks - 1);
    comm.run({Kind::kBarrier});
  });
}

TEST(OrderingTest, test_turns_true_without_wait) {
  RankWorld::get().run([](Communicator& comm) {
    float value = 1;
    const WorkPtr work = comm.all_reduce(host_buffer(&value, 1), ReduceOp::kSum);
    const double start = now_s();
    while (!work->test() && now_s() - start < test_timeout().count()) std::this_thread::yield();
    ASSERT_TRUE(work->test());
    EXPECT_EQ(value, float(comm.size()));
    bool called = false;
    work->on_complete([&] { called = true; });
    EXPECT_TRUE(called) << "on_complete of what is complete calls at once";
  });
}

TEST(OrderingTest, barrier_waits_for_every_rank) {
  RankWorld::get().run([](Communicator& comm) {
    // Every rank in turn comes late; the clock's zero is the same for all processes of a host.
    for (int late = 0; late < comm.size(); ++late) {
      double arrival_s = 0;
      if (comm.rank() == late) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        arrival_s = now_s();
      }
      comm.barrier()->wait();
      const double leave_s = now_s();
      comm.broadcast(host_buffer(&arrival_s, 1), late)->wait();
      EXPECT_GE(leave_s, arrival_s);
    }
  });
}

TEST(OrderingTest, a_work_may_be_dropped_and_outlived) {
  RankWorld::get().run([](Communicator& comm) {
    std::vector<float> dropped(1000, 1.f);
    std::vector<float> kept(1000, 2.f);
    comm.all_reduce(host_buffer(dropped.data(), dropped.size()), ReduceOp::kSum);
    comm.all_reduce(host_buffer(kept.data(), kept.size()), ReduceOp::kSum)->wait();
    EXPECT_EQ(dropped[999], float(comm.size()));
    EXPECT_EQ(kept[0], 2.f * float(comm.size()));
  });
}

}  // namespace
}  // namespace lockstep::comm
