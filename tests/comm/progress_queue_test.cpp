#include "lockstep/comm/progress_queue.h"

#include <atomic>
#include <semaphore>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "comm/rank_world.h"

namespace lockstep::comm {
namespace {

std::shared_ptr<Operation> operation() {
  return std::make_shared<Operation>(OperationInfo{"task"});
}

bool ends(Operation& operation) {
  return operation.wait_until(deadline_after(test_timeout()));
}

TEST(ProgressQueueTest, an_idle_queue_runs_a_task_in_the_calling_thread) {
  ProgressQueue queue("test", [](const Failure&) {});
  std::thread::id ran_in;
  EXPECT_TRUE(queue.run_here([&] {
    EXPECT_FALSE(queue.idle());
    ran_in = std::this_thread::get_id();
  }));
  EXPECT_EQ(ran_in, std::this_thread::get_id());
  EXPECT_TRUE(queue.idle());
}

TEST(ProgressQueueTest, a_busy_queue_refuses_and_later_tasks_follow_in_order) {
  ProgressQueue queue("test", [](const Failure&) {});
  std::vector<int> order;
  std::binary_semaphore go(0);
  const auto first = operation(), second = operation();
  queue.push(first, [&] {
    go.acquire();
    order.push_back(1);
  });
  EXPECT_FALSE(queue.run_here([&] { order.push_back(0); }));
  queue.push(second, [&] { order.push_back(2); });
  EXPECT_FALSE(queue.run_here([&] { order.push_back(0); }));
  go.release();
  ASSERT_TRUE(ends(*second));
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST(ProgressQueueTest, what_is_pushed_while_a_task_runs_here_waits_for_its_end) {
  for (int i = 0; i < 200; ++i) {
    ProgressQueue queue("test", [](const Failure&) {});
    // In half of the rounds the thread is there already, asleep.
    if (i % 2 == 0) {
      const auto start = operation();
      queue.push(start, [] {});
      ASSERT_TRUE(ends(*start));
      while (!queue.idle()) std::this_thread::yield();
    }
    const auto pushed = operation();
    std::atomic<bool> ended{false};
    EXPECT_TRUE(queue.run_here([&] {
      std::thread other([&] { queue.push(pushed, [&] { EXPECT_TRUE(ended); }); });
      other.join();
      std::this_thread::yield();
      ended = true;
    }));
    ASSERT_TRUE(ends(*pushed));
  }
}

TEST(ProgressQueueTest, a_task_that_fails_here_reports_it_as_one_of_the_thread_does) {
  std::atomic<int> reported{0};
  ProgressQueue queue("test", [&](const Failure& failure) { reported += failure.what == "broken"; });
  EXPECT_TRUE(queue.run_here([] { throw CommError("broken"); }));
  EXPECT_EQ(reported, 1);
  EXPECT_TRUE(queue.idle());
}

}  // namespace
}  // namespace lockstep::comm
