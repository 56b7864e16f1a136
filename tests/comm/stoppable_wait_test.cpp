#include "lockstep/comm/stoppable_wait.h"

#include <barrier>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/store.h"

#include "comm/rank_world.h"

namespace lockstep::comm {
namespace {

TEST(StoppableWaitTest, a_complete_operation_ends_the_wait) {
  run_threads(2, test_timeout(), [](Communicator& group) {
    const auto point = std::make_shared<StopPoint>();
    int64_t value = 1;
    EXPECT_TRUE(wait_unless_stopping(*group.all_reduce(host_buffer(&value, 1), ReduceOp::kSum), point));
    EXPECT_EQ(value, 2);
  });
}

// What a sanitizer sees if the callback uses anything that went with the waiting thread's owner: the
// operation ends with the communicator, later than both.
TEST(StoppableWaitTest, an_operation_may_outlive_the_thread_that_waited_and_its_owner) {
  HashStore store;
  std::barrier both(2);
  const auto as_rank = [&](int rank) {
    auto group = connect("thread", {.rank = rank, .size = 2, .store = &store, .timeout = Duration(600)});
    if (rank == 1) return both.arrive_and_wait();
    int64_t value = 1;
    {
      const auto point = std::make_shared<StopPoint>();
      std::thread background([&] {
        EXPECT_FALSE(wait_unless_stopping(*group->all_reduce(host_buffer(&value, 1), ReduceOp::kSum), point));
      });
      {
        const std::lock_guard lock(point->mutex);
        point->stopping = true;
        point->changed.notify_all();
      }
      background.join();
    }
    group.reset();
    both.arrive_and_wait();
  };
  std::thread other([&] { as_rank(1); });
  as_rank(0);
  other.join();
}

}  // namespace
}  // namespace lockstep::comm
