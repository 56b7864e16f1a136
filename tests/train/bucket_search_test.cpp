#include <cmath>
#include <functional>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/train/rows/tune.h"

namespace lockstep::train {
namespace {

using results::BucketTuning;
using testing::ElementsAre;
using testing::HasSubstr;

/// Seconds of a step with this cap, in the block of this number.
using Cost = std::function<double(double bucket_mb, int block)>;

struct Outcome {
  BucketTuning tuning;
  std::vector<double> asked;
};

constexpr double kPayload = 100;

Outcome search(const Cost& cost, int blocks = 40, double payload_mb = kPayload) {
  Outcome outcome;
  outcome.tuning = search_buckets({.payload_mb = payload_mb, .blocks = blocks}, [&](double cap) {
    const double step_s = cost(cap, static_cast<int>(outcome.asked.size()));
    outcome.asked.push_back(cap);
    return std::vector<double>{step_s, 1.001 * step_s, 0.999 * step_s};
  });
  return outcome;
}

/// A cost with normal noise.
Cost noisy(Cost cost, double share, unsigned seed) {
  auto generator = std::make_shared<std::mt19937>(seed);
  return [cost = std::move(cost), share, generator](double cap, int block) {
    std::normal_distribution<double> normal(1, share);
    return cost(cap, block) * normal(*generator);
  };
}

double per_message(double cap, int /*block*/) {
  return 1 + 0.02 * std::ceil(kPayload / cap);
}
double per_exposed_bucket(double cap, int /*block*/) {
  return 1 + 0.01 * std::min(cap, kPayload);
}
double flat(double /*cap*/, int /*block*/) {
  return 1;
}

TEST(BucketSearchTest, where_messages_cost_one_bucket_is_best) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const BucketTuning found = search(noisy(per_message, 0.01, seed)).tuning;
    EXPECT_GT(found.chosen_mb, 25) << seed;
    EXPECT_GT(*found.speedup_low, 1) << seed;
  }
}

TEST(BucketSearchTest, where_the_last_bucket_is_exposed_small_ones_are_best) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const BucketTuning found = search(noisy(per_exposed_bucket, 0.01, seed)).tuning;
    EXPECT_LE(found.chosen_mb, 4) << seed;
    // 1.25 against 1.005 to 1.04.
    EXPECT_NEAR(*found.speedup, 1.22, 0.05) << seed;
  }
}

TEST(BucketSearchTest, what_lies_between_the_grid_is_found_too) {
  const Cost between = [](double cap, int) { return 1 + 0.1 * std::pow(std::log(cap / 4), 2); };
  for (unsigned seed = 0; seed < 20; ++seed) {
    const BucketTuning found = search(noisy(between, 0.005, seed)).tuning;
    EXPECT_GE(found.chosen_mb, 2.5) << seed;
    EXPECT_LE(found.chosen_mb, 6) << seed;
  }
}

TEST(BucketSearchTest, where_no_cap_is_better_the_default_stays) {
  int changed = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const BucketTuning found = search(noisy(flat, 0.03, seed)).tuning;
    changed += found.chosen_mb == 25 ? 0 : 1;
    if (found.chosen_mb == 25) {
      EXPECT_THAT(found.reason, testing::AnyOf(HasSubstr("no other was faster"), HasSubstr("cannot be told"),
                                               HasSubstr("by chance")));
    }
  }
  // One in 40 is above a 95 % interval by chance.
  EXPECT_LE(changed, 12);
}

TEST(BucketSearchTest, a_machine_that_becomes_slower_or_faster_favours_none) {
  for (const double slope : {0.01, -0.005}) {
    const Cost drifting = [slope](double, int block) { return 1 + slope * block; };
    EXPECT_EQ(search(drifting).tuning.chosen_mb, 25) << slope;
  }
}

TEST(BucketSearchTest, no_more_is_measured_than_was_allowed) {
  for (int blocks = 0; blocks <= 60; ++blocks) {
    const Outcome outcome = search(per_message, blocks);
    EXPECT_LE(outcome.asked.size(), static_cast<size_t>(blocks)) << blocks;
    if (blocks < 10) {
      EXPECT_TRUE(outcome.asked.empty());
      EXPECT_EQ(outcome.tuning.chosen_mb, 25);
      EXPECT_THAT(outcome.tuning.reason, HasSubstr("too few"));
    } else {
      EXPECT_GE(outcome.tuning.candidates.size(), 2u) << blocks;
      EXPECT_TRUE(outcome.tuning.best_mb == 25 || outcome.tuning.speedup_low) << blocks;
    }
  }
}

TEST(BucketSearchTest, all_of_the_grid_are_measured_in_turn_before_any_is_measured_again) {
  const Outcome outcome = search(flat);
  ASSERT_GE(outcome.asked.size(), 8u);
  EXPECT_THAT(std::vector<double>(outcome.asked.begin(), outcome.asked.begin() + 5),
              ElementsAre(0.5, 2, 8, 25, 128));
  // The last blocks are pairs, and turn round from one to the next.
  const Outcome fast_small = search(per_exposed_bucket);
  const auto end = fast_small.asked.end();
  EXPECT_EQ(end[-1], end[-4]);
  EXPECT_EQ(end[-2], end[-3]);
  EXPECT_NE(end[-1], end[-2]);
}

TEST(BucketSearchTest, caps_that_hold_everything_are_tried_once) {
  const auto caps = [](double payload_mb) {
    const Outcome outcome = search(flat, 13, payload_mb);
    return std::set<double>(outcome.asked.begin(), outcome.asked.end());
  };
  EXPECT_THAT(caps(3), ElementsAre(0.5, 2, 25));
  EXPECT_THAT(caps(44), ElementsAre(0.5, 2, 8, 25, 128));
  EXPECT_THAT(caps(0.3), ElementsAre());
  EXPECT_THAT(search(flat, 40, 0.3).tuning.reason, HasSubstr("fit into a bucket of 0.5 MiB"));
}

}  // namespace
}  // namespace lockstep::train
