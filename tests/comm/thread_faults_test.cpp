#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/store.h"

#include "comm/rank_world.h"

namespace lockstep::comm {
namespace {

constexpr Duration kShort(1);

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const CommError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no CommError";
  return "";
}

TEST(ThreadFaultsTest, a_rank_that_never_arrives_is_named_in_time) {
  std::atomic<bool> over{false};
  run_threads(3, kShort, [&](Communicator& comm) {
    if (comm.rank() == 1) {
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;
    }
    float value = 1;
    const WorkPtr work = comm.all_reduce(host_buffer(&value, 1), ReduceOp::kSum);
    EXPECT_THROW(work->wait(test_timeout()), TimeoutError);
    EXPECT_NE(message_of([&] { work->wait(); }).find("rank 1 did not arrive"), std::string::npos);
    EXPECT_NE(message_of([&] { comm.barrier(); }).find("unusable"), std::string::npos);
    if (comm.rank() == 0) over = true;
  });
}

TEST(ThreadFaultsTest, wait_gives_up_after_its_own_time_out) {
  std::atomic<int> waiting{1};
  run_threads(2, test_timeout(), [&](Communicator& comm) {
    if (comm.rank() == 1) {
      while (waiting > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;
    }
    const WorkPtr work = comm.barrier();
    const double start = now_s();
    EXPECT_THROW(work->wait(Duration(0.05)), TimeoutError);
    EXPECT_GE(now_s() - start, 0.05);
    EXPECT_THROW(work->test(), TimeoutError);
    EXPECT_THROW(comm.barrier(), TimeoutError);
    waiting = 0;
  });
}

TEST(ThreadFaultsTest, run_keeps_the_time_out_and_its_failure_is_final) {
  std::atomic<int> waiting{2};
  run_threads(3, kShort, [&](Communicator& comm) {
    const Collective barrier{Collective::Kind::kBarrier};
    // Comes before the begin of any rank's time-out, and the first one ends the waiting of all.
    const double start = now_s();
    comm.run(barrier);
    // No thread of the communicator's own was needed.
    EXPECT_EQ(comm.progress_thread_cpu_s(), 0);
    if (comm.rank() == 1) {
      while (waiting > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;
    }
    const std::string message = message_of([&] { comm.run(barrier); });
    EXPECT_GE(now_s() - start, kShort.count());
    EXPECT_NE(message.find("barrier on rank"), std::string::npos) << message;
    EXPECT_NE(message.find("rank 1 did not arrive"), std::string::npos) << message;
    EXPECT_NE(message_of([&] { comm.run(barrier); }).find("unusable"), std::string::npos);
    EXPECT_NE(message_of([&] { comm.barrier(); }).find("unusable"), std::string::npos);
    --waiting;
  });
}

TEST(ThreadFaultsTest, run_ends_when_another_thread_makes_the_communicator_fail) {
  std::atomic<bool> over{false};
  run_threads(2, test_timeout(), [&](Communicator& comm) {
    if (comm.rank() == 1) {
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;
    }
    int32_t value = 0;
    const WorkPtr received = comm.receive(host_buffer(&value, 1), 1, 0);
    std::thread other([&] { EXPECT_THROW(received->wait(Duration(0.1)), TimeoutError); });
    EXPECT_NE(message_of([&] { comm.run({Collective::Kind::kBarrier}); }).find("receive"), std::string::npos);
    other.join();
    over = true;
  });
}

TEST(ThreadFaultsTest, a_rank_that_leaves_ends_run) {
  run_threads(2, test_timeout(), [&](Communicator& comm) {
    if (comm.rank() == 1) return;
    EXPECT_THROW(comm.run({Collective::Kind::kBarrier}), PeerLostError);
  });
}

TEST(ThreadFaultsTest, a_message_that_never_comes_times_out) {
  std::atomic<bool> over{false};
  run_threads(2, test_timeout(), [&](Communicator& comm) {
    if (comm.rank() == 1) {
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;
    }
    int32_t value = 0;
    EXPECT_THROW(comm.receive(host_buffer(&value, 1), 1, 0)->wait(Duration(0.05)), TimeoutError);
    over = true;
  });
}

TEST(ThreadFaultsTest, a_rank_that_leaves_is_named) {
  run_threads(3, test_timeout(), [&](Communicator& comm) {
    if (comm.rank() == 2) return;
    float value = 1;
    // Only the lower ranks find out by themselves; either may hear it from the other.
    const WorkPtr work = comm.all_reduce(host_buffer(&value, 1), ReduceOp::kSum);
    EXPECT_THROW(work->wait(), PeerLostError);
    EXPECT_NE(message_of([&] { work->wait(); }).find("rank 2 has left"), std::string::npos);
  });
}

TEST(ThreadFaultsTest, messages_to_and_from_a_rank_that_left_fail) {
  run_threads(2, test_timeout(), [&](Communicator& comm) {
    if (comm.rank() == 1) return;
    int32_t value = 0;
    const WorkPtr received = comm.receive(host_buffer(&value, 1), 1, 0);
    EXPECT_THROW(received->wait(), PeerLostError);
  });
  run_threads(2, test_timeout(), [&](Communicator& comm) {
    if (comm.rank() == 1) return;
    int32_t value = 0;
    EXPECT_THROW(comm.receive_any(host_buffer(&value, 1), 0)->wait(), PeerLostError);
  });
}

TEST(ThreadFaultsTest, ranks_that_disagree_are_told_how) {
  std::atomic<int> told{0};
  run_threads(2, test_timeout(), [&](Communicator& comm) {
    std::vector<float> values(10);
    const size_t count = comm.rank() == 0 ? 10 : 9;
    const WorkPtr work = comm.all_reduce(host_buffer(values.data(), count), ReduceOp::kSum);
    const std::string message = message_of([&] { work->wait(); });
    if (message.find("9 x fp32") != std::string::npos && message.find("10 x fp32") != std::string::npos)
      ++told;
  });
  EXPECT_GT(told, 0);
}

TEST(ThreadFaultsTest, a_message_of_another_size_is_an_error_on_both_sides) {
  run_threads(2, test_timeout(), [&](Communicator& comm) {
    std::vector<float> values(10);
    const size_t count = comm.rank() == 0 ? 10 : 9;
    const Buffer buffer = host_buffer(values.data(), count);
    const WorkPtr work = comm.rank() == 0 ? comm.send(buffer, 1, 6) : comm.receive(buffer, 0, 6);
    const std::string message = message_of([&] { work->wait(); });
    EXPECT_NE(message.find("sent 40 bytes with tag 6, rank 1 expected 36"), std::string::npos) << message;
  });
}

TEST(ThreadFaultsTest, on_complete_is_called_for_a_failure) {
  std::atomic<bool> called{false};
  run_threads(2, test_timeout(), [&](Communicator& comm) {
    if (comm.rank() == 1) {
      while (!called) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;
    }
    const WorkPtr work = comm.barrier();
    work->on_complete([&] { called = true; });
    EXPECT_FALSE(called);
    EXPECT_THROW(work->wait(Duration(0.05)), TimeoutError);
    EXPECT_TRUE(called);
  });
}

TEST(ThreadFaultsTest, operations_in_flight_fail_when_their_communicator_is_destroyed) {
  HashStore store;
  std::vector<std::unique_ptr<Communicator>> comms(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      comms[size_t(rank)] = connect(
          "thread", {.rank = rank, .size = 2, .store = &store, .timeout = test_timeout(), .interface = ""});
    });
  }
  for (std::thread& thread : threads) thread.join();
  const WorkPtr mine = comms[0]->barrier();
  comms[0].reset();
  EXPECT_THROW(mine->wait(), CommError);
  EXPECT_THROW(comms[1]->barrier()->wait(), CommError);
}

TEST(ThreadFaultsTest, joining_gives_up_when_a_rank_stays_away) {
  HashStore store;
  EXPECT_THROW(
      connect("thread", {.rank = 0, .size = 2, .store = &store, .timeout = Duration(0.05), .interface = ""}),
      TimeoutError);
}

TEST(ThreadFaultsTest, a_store_may_be_used_for_one_connect_after_another) {
  HashStore store;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      for (int turn = 0; turn < 3; ++turn) {
        const auto comm = connect(
            "thread", {.rank = rank, .size = 2, .store = &store, .timeout = test_timeout(), .interface = ""});
        int32_t sum = turn + rank;
        comm->all_reduce(host_buffer(&sum, 1), ReduceOp::kSum)->wait();
        EXPECT_EQ(sum, 2 * turn + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace lockstep::comm
