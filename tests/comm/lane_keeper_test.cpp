#include "lockstep/comm/lane_keeper.h"

#include <functional>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

#include "comm/rank_world.h"

namespace lockstep::comm {
namespace {

/// Counts the communicators that are made from it.
class CountingCommunicator final : public ForwardingCommunicator {
 public:
  CountingCommunicator(std::unique_ptr<Communicator> real, int& made)
      : ForwardingCommunicator(*real), owned_(std::move(real)), made_(made) {}

  std::unique_ptr<Communicator> split(std::span<const int> ranks) override {
    ++made_;
    return real_.split(ranks);
  }
  std::unique_ptr<Communicator> duplicate() override {
    ++made_;
    return real_.duplicate();
  }

 private:
  std::unique_ptr<Communicator> owned_;
  int& made_;
};

int64_t sum_over(Communicator& lane, int64_t value) {
  lane.all_reduce(host_buffer(&value, 1), ReduceOp::kSum)->wait();
  return value;
}

/// A keeper on each of three threads, with how many communicators it has made.
void on_three_ranks(const std::function<void(LaneKeeper& keeper, const int& made)>& body) {
  run_threads(3, test_timeout(), [&](Communicator& group) {
    int made = 0;
    LaneKeeper keeper(std::make_unique<CountingCommunicator>(group.split_first(3), made));
    body(keeper, made);
  });
}

TEST(LaneKeeperTest, a_lane_that_comes_back_is_lent_again) {
  on_three_ranks([](LaneKeeper& keeper, const int& made) {
    for (int run = 0; run < 4; ++run) {
      std::unique_ptr<Communicator> first = keeper.duplicate();
      std::unique_ptr<Communicator> second = keeper.duplicate();
      const std::unique_ptr<Communicator> channel = keeper.split_first(3);
      EXPECT_EQ(sum_over(*first, 1 + keeper.rank()), 6);
      EXPECT_EQ(sum_over(*second, 10), 30);
      EXPECT_EQ(sum_over(*channel, 100), 300);
      // The order of going does not decide who gets which.
      if (keeper.rank() == 1) first.reset();
      second.reset();
    }
    EXPECT_EQ(made, 3);
  });
}

TEST(LaneKeeperTest, a_part_of_the_ranks_is_made_anew) {
  on_three_ranks([](LaneKeeper& keeper, const int& made) {
    for (int run = 0; run < 2; ++run) {
      const std::unique_ptr<Communicator> part = keeper.split_first(2);
      EXPECT_EQ(part != nullptr, keeper.rank() < 2);
    }
    EXPECT_EQ(made, 2);
  });
}

TEST(LaneKeeperTest, those_that_nobody_uses_can_be_dropped) {
  on_three_ranks([](LaneKeeper& keeper, const int& made) {
    const std::unique_ptr<Communicator> used = keeper.duplicate();
    keeper.duplicate().reset();
    keeper.drop_kept();
    EXPECT_EQ(sum_over(*used, 2), 6);
    EXPECT_EQ(sum_over(*keeper.duplicate(), 3), 9);
    EXPECT_EQ(made, 3);
  });
}

TEST(LaneKeeperTest, a_lane_may_outlive_its_keeper) {
  run_threads(2, test_timeout(), [&](Communicator& group) {
    auto keeper = std::make_unique<LaneKeeper>(group.split_first(2));
    const std::unique_ptr<Communicator> lane = keeper->duplicate();
    keeper.reset();
    EXPECT_EQ(sum_over(*lane, 4), 8);
  });
}

TEST(LaneKeeperTest, what_was_abandoned_in_a_lane_fails) {
  run_threads(2, test_timeout(), [&](Communicator& group) {
    LaneKeeper keeper(group.split_first(2));
    std::unique_ptr<Communicator> lane = keeper.duplicate();
    if (keeper.rank() == 0) {
      int64_t value = 1;
      const WorkPtr work = lane->all_reduce(host_buffer(&value, 1), ReduceOp::kSum);
      lane.reset();
      EXPECT_THROW(work->wait(), CommError);
    }
    EXPECT_EQ(sum_over(group, 1), 2);
  });
}

}  // namespace
}  // namespace lockstep::comm
