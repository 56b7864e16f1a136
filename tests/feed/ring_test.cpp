#include <atomic>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/feed/ordered_ring.h"

namespace lockstep::feed {
namespace {

using Ring = OrderedRing<int64_t>;

void produce(Ring& ring, int64_t end) {
  while (auto place = ring.claim()) {
    if (place->number >= end) return;
    *place->slot = place->number * place->number;
    ring.publish(*place);
  }
}

class RingTest : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(RingTest, hands_every_batch_over_once_and_in_order_whoever_made_it) {
  const auto [producers, capacity] = GetParam();
  constexpr int64_t kBatches = 2000;
  Ring ring({.name = "made", .capacity = capacity, .producers = producers});
  std::vector<std::jthread> threads;
  for (int i = 0; i < producers; ++i) threads.emplace_back([&ring] { produce(ring, kBatches); });
  for (int64_t number = 0; number < kBatches; ++number) ASSERT_EQ(*ring.next(), number * number);
  ring.close();
  const QueueUse use = ring.use();
  EXPECT_EQ(use.batches, kBatches - 1);
  EXPECT_EQ(use.made, kBatches);
  EXPECT_LE(use.ready, use.batches * capacity);
}

INSTANTIATE_TEST_SUITE_P(All, RingTest, testing::Combine(testing::Values(1, 2, 5), testing::Values(1, 2, 8)));

/// A batch that is not published holds back those after it, and nothing beyond the capacity is given out.
TEST(RingTest, a_batch_waits_for_the_one_before_it_and_for_room) {
  Ring ring({.capacity = 2});
  auto first = ring.claim(), second = ring.claim();
  EXPECT_TRUE(ring.claim());
  *second->slot = 2;
  ring.publish(*second);
  std::atomic<bool> asks = false, has_room = false;
  std::jthread fourth([&] {
    asks = true;
    ring.claim();
    has_room = true;
  });
  *first->slot = 1;
  ring.publish(*first);
  EXPECT_EQ(*ring.next(), 1);
  // The first is the consumer's as long as it does not ask for another: two are ready or in the making.
  while (!asks) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(has_room);
  EXPECT_EQ(*ring.next(), 2);
  fourth.join();
  EXPECT_TRUE(has_room);
  const QueueUse use = ring.use();
  EXPECT_EQ(use.full, 1);
  EXPECT_GE(use.full_s, 0.01);
  EXPECT_EQ(use.empty, 0);
}

TEST(RingTest, counts_the_waits_of_its_consumer_but_not_for_the_first_batch) {
  Ring ring({.capacity = 2});
  std::jthread producer([&] {
    for (int i = 0; i < 3; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      auto place = ring.claim();
      ring.publish(*place);
    }
  });
  for (int i = 0; i < 3; ++i) ring.next();
  const QueueUse use = ring.use();
  EXPECT_EQ(use.batches, 2);
  EXPECT_EQ(use.empty, 2);
  EXPECT_GE(use.empty_s, 0.015);
  EXPECT_LE(use.empty_s, use.elapsed_s);
  EXPECT_EQ(use.ready, 0);
}

TEST(RingTest, what_a_producer_failed_with_comes_after_what_is_ready) {
  Ring ring({.capacity = 2});
  auto place = ring.claim();
  *place->slot = 7;
  ring.publish(*place);
  ring.fail(std::make_exception_ptr(std::runtime_error("no more")));
  EXPECT_EQ(*ring.next(), 7);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT([&] { ring.next(); }, testing::ThrowsMessage<std::runtime_error>("no more"));
  }
}

TEST(RingTest, closing_wakes_everybody) {
  Ring ring({.capacity = 1});
  ring.claim();
  ring.claim();
  std::jthread producer([&] { EXPECT_FALSE(ring.claim()); });
  std::jthread consumer([&] { EXPECT_EQ(ring.next(), nullptr); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ring.close();
}

}  // namespace
}  // namespace lockstep::feed
