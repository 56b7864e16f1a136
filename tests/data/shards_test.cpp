#include "lockstep/data/shards.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/messages.h"

namespace lockstep::data {
namespace {

using testing::HasSubstr;

std::vector<int64_t> joined(std::vector<Shards>& ranks, int64_t number) {
  std::vector<int64_t> all;
  for (Shards& rank : ranks) {
    if (number >= rank.batches_per_epoch()) continue;
    const std::vector<int64_t> part = rank.batch(number).samples;
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<Shards> make_ranks(ShardOptions options, int ranks, int64_t global) {
  std::vector<Shards> all;
  for (int rank = 0; rank < ranks; ++rank) {
    options.rank = rank;
    options.ranks = ranks;
    options.batch = global / ranks;
    all.emplace_back(options);
  }
  return all;
}

class ShardsTest : public testing::TestWithParam<int> {};

TEST_P(ShardsTest, give_the_ranks_together_what_one_rank_gets_alone) {
  const ShardOptions options{.samples = 100, .seed = 3};
  std::vector<Shards> parts = make_ranks(options, GetParam(), 12);
  Shards whole(make_ranks(options, 1, 12).front());
  ASSERT_EQ(whole.batches_per_epoch(), 8);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<int64_t> seen;
    for (int64_t step = 0; step < 8; ++step) {
      const ShardBatch expected = whole.batch(epoch * 8 + step);
      EXPECT_EQ(expected.epoch, epoch);
      std::vector<int64_t> all;
      for (Shards& part : parts) {
        ASSERT_EQ(part.batches_per_epoch(), 8);
        const ShardBatch batch = part.batch(epoch * 8 + step);
        EXPECT_EQ(batch.epoch, epoch);
        all.insert(all.end(), batch.samples.begin(), batch.samples.end());
      }
      EXPECT_EQ(all, expected.samples);
      seen.insert(all.begin(), all.end());
    }
    // 96 different ones: no sample twice in an epoch, on any rank.
    EXPECT_EQ(seen.size(), 96U);
  }
}

TEST_P(ShardsTest, an_evaluation_has_every_sample_once_and_in_order) {
  for (const int64_t samples : {1, 5, 11, 12, 13, 23, 24, 100}) {
    std::vector<Shards> ranks = make_ranks({.samples = samples, .evaluation = true}, GetParam(), 12);
    std::vector<int64_t> all;
    for (int64_t step = 0; step < ranks.front().batches_per_epoch(); ++step) {
      const std::vector<int64_t> batch = joined(ranks, step);
      all.insert(all.end(), batch.begin(), batch.end());
    }
    std::vector<int64_t> expected(static_cast<size_t>(samples));
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShardsTest, testing::Values(1, 2, 3, 4, 6, 12));

TEST(ShardsTest, epochs_and_seeds_have_orders_of_their_own) {
  const auto epoch = [](uint64_t seed, int64_t number) {
    return Shards({.samples = 50, .batch = 50, .seed = seed}).batch(number).samples;
  };
  const std::vector<int64_t> first = epoch(1, 0);
  EXPECT_EQ(epoch(1, 0), first);
  EXPECT_NE(epoch(1, 1), first);
  EXPECT_NE(epoch(2, 0), first);
  EXPECT_FALSE(std::ranges::is_sorted(first));
  // Asked for again after another epoch, as when training goes on from a checkpoint.
  Shards shards({.samples = 50, .batch = 50});
  shards.batch(7);
  EXPECT_EQ(shards.batch(0).samples, first);
}

TEST(ShardsTest, what_is_left_out_changes_from_epoch_to_epoch) {
  Shards shards({.samples = 10, .batch = 4});
  std::set<int64_t> seen;
  for (int64_t number = 0; number < 40; ++number) {
    for (const int64_t sample : shards.batch(number).samples) seen.insert(sample);
  }
  EXPECT_EQ(seen.size(), 10U);
}

TEST(ShardsTest, an_epoch_is_a_whole_number_of_steps) {
  // 11 batches of 4, of which a step takes 3: the next epoch begins with the tenth.
  Shards shards({.samples = 46, .batch = 4, .batches_per_step = 3});
  EXPECT_EQ(shards.batches_per_epoch(), 9);
  EXPECT_EQ(shards.batch(8).epoch, 0);
  EXPECT_EQ(shards.batch(9).epoch, 1);
}

TEST(ShardsTest, too_few_samples_are_refused_with_what_would_fit) {
  const auto make = [](int64_t samples, int64_t batch, int ranks) {
    return message_of([&] { Shards({.samples = samples, .batch = batch, .ranks = ranks}); });
  };
  EXPECT_THAT(make(10, 4, 3), testing::AllOf(HasSubstr("10 samples are too few for 3 ranks"),
                                             HasSubstr("batch of 3 or less")));
  EXPECT_THAT(make(2, 1, 3), HasSubstr("fewer ranks"));
  EXPECT_THAT(message_of([] { Shards({.samples = 20, .batch = 4, .ranks = 2, .batches_per_step = 3}); }),
              testing::AllOf(HasSubstr("for 2 ranks with 3 times a batch of 4 each"),
                             HasSubstr("batch of 3 or less")));
}

TEST(ShardsTest, augmentation_differs_between_samples_epochs_and_seeds) {
  std::set<uint64_t> seeds;
  for (const uint64_t seed : {1, 2}) {
    for (int64_t epoch = 0; epoch < 10; ++epoch) {
      for (int64_t sample = 0; sample < 10; ++sample) seeds.insert(augmentation_seed(seed, epoch, sample));
    }
  }
  EXPECT_EQ(seeds.size(), 200U);
}

}  // namespace
}  // namespace lockstep::data
