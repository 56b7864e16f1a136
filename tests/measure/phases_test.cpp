#include "lockstep/measure/phases.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::measure {
namespace {

/// A step that begins at `begin_s`: input 1 ms, forward 10, backward 20 with two buckets that become final
/// after 12 and 20 ms of it, and whatever the collectives then take; optimizer 2 ms, other 0.5.
StepStamps step(double begin_s, double delay_s, double first_ended_s, double second_ended_s) {
  StepStamps stamps;
  stamps.begin_s = begin_s;
  stamps.input_s = begin_s + 0.001;
  stamps.forward_s = stamps.input_s + 0.010 + delay_s;
  stamps.backward_s = second_ended_s;
  stamps.combined_s = second_ended_s;
  stamps.applied_s = second_ended_s + 0.002;
  stamps.end_s = stamps.applied_s + 0.0005;
  stamps.collectives = {{.bytes = 100, .issued_s = stamps.forward_s + 0.012, .ended_s = first_ended_s},
                        {.bytes = 200, .issued_s = stamps.forward_s + 0.020, .ended_s = second_ended_s}};
  return stamps;
}

/// Two ranks on clocks that differ by `offset_s`; rank 1 is late by `delay_s`, a bucket takes 5 ms once both
/// are there, the second waits for the first.
std::vector<RankStamps> two_ranks(double delay_s, double offset_s, double transfer_s = 0.005) {
  const double first_s = 0.001 + 0.010 + delay_s + 0.012 + transfer_s;
  const double second_s = std::max(first_s, 0.001 + 0.010 + delay_s + 0.020) + transfer_s;
  std::vector<RankStamps> ranks(2);
  for (int i = 0; i < 8; ++i) {
    const double begin_s = i * 0.1;
    ranks[0].steps.push_back(step(begin_s, 0, begin_s + first_s, begin_s + second_s));
    const double own_s = begin_s + offset_s;
    ranks[1].steps.push_back(step(own_s, delay_s, own_s + first_s, own_s + second_s));
  }
  ranks[1].clock_offset_s = offset_s;
  return ranks;
}

void expect_sums_to_step(const PhaseTimes& times) {
  const double sum_s = times.input_s + times.forward_s + times.backward_s + times.exposed_s() +
                       times.optimizer_s + times.other_s;
  EXPECT_NEAR(sum_s, times.step_s, 1e-12);
}

TEST(PhasesTest, a_late_rank_shows_up_as_waiting_on_the_other_and_is_named) {
  const double delay_s = 0.007;
  const Breakdown found = break_down(two_ranks(delay_s, 0));
  EXPECT_NEAR(found.ranks[0].mean.waiting_s, delay_s, 1e-9);
  EXPECT_NEAR(found.ranks[0].mean.transfer_s, 0.005, 1e-9);
  EXPECT_NEAR(found.ranks[1].mean.waiting_s, 0, 1e-9);
  EXPECT_NEAR(found.ranks[1].mean.transfer_s, 0.005, 1e-9);
  EXPECT_EQ(found.straggler, 1);
  expect_sums_to_step(found.mean);
}

TEST(PhasesTest, what_backward_hid_of_a_delay_is_not_waited_for) {
  // Rank 1 has the first bucket 4.5 ms late and catches up; backward ends after 31 ms, that bucket after 32.
  std::vector<RankStamps> ranks = two_ranks(0, 0);
  for (RankStamps& rank : ranks) {
    for (StepStamps& step : rank.steps) {
      const double begin_s = step.begin_s;
      step.collectives[0].ended_s = begin_s + 0.032;
      step.collectives[1].ended_s = step.backward_s = step.combined_s = begin_s + 0.040;
      step.applied_s = begin_s + 0.042;
      step.end_s = begin_s + 0.0425;
    }
  }
  for (StepStamps& step : ranks[1].steps) {
    step.collectives[0].issued_s = step.begin_s + 0.0275;
    step.collectives[1].issued_s = step.begin_s + 0.0312;
  }
  const Breakdown found = break_down(ranks);
  EXPECT_NEAR(found.ranks[0].mean.waiting_s, 0.001, 1e-9);
  EXPECT_NEAR(found.ranks[0].mean.transfer_s, 0.008, 1e-9);
}

TEST(PhasesTest, errors_of_the_clocks_widen_waiting_and_transfer) {
  std::vector<RankStamps> ranks = two_ranks(0.007, 0);
  for (int i = 0; i < 8; ++i) {
    ranks[0].steps.push_back(ranks[0].steps[static_cast<size_t>(i)]);
    ranks[1].steps.push_back(ranks[1].steps[static_cast<size_t>(i)]);
  }
  const Breakdown one_host = break_down(ranks);
  ranks[1].clock_error_s = 0.001;
  const Breakdown two_hosts = break_down(ranks);
  ASSERT_TRUE(one_host.waiting_half_width_s && two_hosts.waiting_half_width_s);
  // Either rank's waiting is off by the error between the two.
  EXPECT_NEAR(*two_hosts.waiting_half_width_s - *one_host.waiting_half_width_s, 0.001, 1e-12);
  EXPECT_NEAR(*two_hosts.transfer_half_width_s - *one_host.transfer_half_width_s, 0.001, 1e-12);
  ranks.push_back(ranks[1]);
  // Ranks 1 and 2 each compare two clocks that are off: 1, 2 and 2 ms.
  EXPECT_NEAR(*break_down(ranks).waiting_half_width_s, *one_host.waiting_half_width_s + 0.005 / 3, 1e-6);
}

TEST(PhasesTest, another_hosts_clock_is_corrected) {
  const Breakdown found = break_down(two_ranks(0.007, 1234.5));
  EXPECT_NEAR(found.ranks[0].mean.waiting_s, 0.007, 1e-9);
  EXPECT_NEAR(found.ranks[1].mean.waiting_s, 0, 1e-9);
}

TEST(PhasesTest, a_slow_network_shows_up_as_transfer_and_nobody_is_named) {
  const Breakdown found = break_down(two_ranks(0, 0, 0.020));
  // The first bucket starts 12 ms into backward and ends at 32, the second then takes until 52: 32 ms
  // exposed.
  EXPECT_NEAR(found.mean.transfer_s, 0.032, 1e-9);
  EXPECT_NEAR(found.mean.waiting_s, 0, 1e-9);
  EXPECT_FALSE(found.straggler);
  EXPECT_NEAR(found.communication_s, 0.040, 1e-9);
  EXPECT_NEAR(found.overlap().value(), 1 - 32.0 / 40, 1e-9);
  EXPECT_NEAR(found.ranks[0].buckets[1].started_s - found.ranks[0].buckets[1].ready_s, 0.012, 1e-9);
}

TEST(PhasesTest, times_of_buckets_count_from_the_begin_of_the_step) {
  // The second bucket is ready 31 ms into the step, and on the late rank 7 ms later; the first ends at 50 ms.
  const Breakdown found = break_down(two_ranks(0.007, 0, 0.020));
  for (const auto& [rank, ready_s] : {std::pair{0, 0.031}, std::pair{1, 0.038}}) {
    const std::vector<BucketTimes>& buckets = found.ranks.at(static_cast<size_t>(rank)).buckets;
    ASSERT_EQ(buckets.size(), 2U);
    EXPECT_EQ(buckets[1].bytes, 200);
    EXPECT_NEAR(buckets[1].ready_s, ready_s, 1e-9);
    EXPECT_NEAR(buckets[1].started_s, 0.050, 1e-9);
    EXPECT_NEAR(buckets[1].ended_s, 0.070, 1e-9);
    EXPECT_NEAR(buckets[0].all_arrived_s, 0.030, 1e-9);
  }
}

TEST(PhasesTest, times_of_a_bucket_are_means_over_the_steps_that_have_it) {
  std::vector<RankStamps> ranks = two_ranks(0, 0);
  const BucketTimes always = break_down(ranks).ranks[0].buckets[1];
  for (RankStamps& rank : ranks) {
    for (size_t i = 0; i < rank.steps.size(); ++i) {
      if (i % 4 != 3) rank.steps[i].collectives.clear();
    }
  }
  const Breakdown found = break_down(ranks);
  const BucketTimes& rare = found.ranks[0].buckets[1];
  EXPECT_EQ(rare.bytes, 200);
  EXPECT_NEAR(rare.ended_s - rare.started_s, always.ended_s - always.started_s, 1e-12);
  EXPECT_NEAR(found.communication_s, 0.25 * break_down(two_ranks(0, 0)).communication_s, 1e-12);
}

TEST(PhasesTest, a_turn_comes_when_what_the_lane_had_to_do_before_is_done) {
  std::vector<CollectiveStamp> collectives{{.issued_s = 1, .ended_s = 5},
                                           {.issued_s = 2, .ended_s = 4, .lane = 1},
                                           {.issued_s = 3, .ended_s = 7},
                                           {.issued_s = 3.5, .ended_s = 6, .lane = 1}};
  EXPECT_EQ(turn_s(collectives, 0), 1);
  EXPECT_EQ(turn_s(collectives, 1), 2);
  EXPECT_EQ(turn_s(collectives, 2), 5);
  EXPECT_EQ(turn_s(collectives, 3), 4);
}

TEST(PhasesTest, time_in_which_two_buckets_move_counts_once) {
  // Bucket 1 from 23 to 32 ms after the begin of the step, bucket 2 from 31 to 36.
  const double slow_s = 0.009;
  std::vector<RankStamps> ranks = two_ranks(0, 0, slow_s);
  EXPECT_NEAR(break_down(ranks).communication_s, 2 * slow_s, 1e-9);
  for (RankStamps& rank : ranks) {
    for (StepStamps& step : rank.steps) {
      step.collectives[1].lane = 1;
      step.collectives[1].ended_s = step.begin_s + 0.036;
    }
  }
  const Breakdown found = break_down(ranks);
  EXPECT_NEAR(found.communication_s, 0.036 - 0.023, 1e-9);
  EXPECT_NEAR(found.ranks[0].buckets[1].started_s, 0.031, 1e-9);
}

TEST(PhasesTest, without_collectives_nothing_is_exposed) {
  RankStamps rank;
  rank.steps.push_back(step(0, 0, 0.02, 0.031));
  rank.steps.back().collectives.clear();
  const Breakdown found = break_down({rank});
  EXPECT_EQ(found.mean.exposed_s(), 0);
  EXPECT_FALSE(found.overlap());
  expect_sums_to_step(found.mean);
}

TEST(PhasesTest, an_update_between_two_buckets_is_the_optimizers) {
  std::vector<RankStamps> ranks = two_ranks(0, 0);
  const Breakdown before = break_down(ranks);
  for (RankStamps& rank : ranks) {
    for (StepStamps& step : rank.steps) {
      step.applying = {{step.combined_s - 0.003, step.combined_s - 0.001}};
    }
  }
  const Breakdown found = break_down(ranks);
  EXPECT_NEAR(found.mean.transfer_s, before.mean.transfer_s - 0.002, 1e-9);
  EXPECT_NEAR(found.mean.optimizer_s, before.mean.optimizer_s + 0.002, 1e-9);
  expect_sums_to_step(found.mean);
}

TEST(PhasesTest, a_fetch_before_forward_is_exposed) {
  std::vector<RankStamps> ranks = two_ranks(0, 0);
  const Breakdown before = break_down(ranks);
  for (RankStamps& rank : ranks) {
    for (StepStamps& step : rank.steps) step.communicating = {{step.input_s, step.input_s + 0.004}};
  }
  const Breakdown found = break_down(ranks);
  EXPECT_NEAR(found.mean.transfer_s, before.mean.transfer_s + 0.004, 1e-9);
  EXPECT_NEAR(found.mean.forward_s, before.mean.forward_s - 0.004, 1e-9);
  expect_sums_to_step(found.mean);
}

TEST(PhasesTest, communication_of_earlier_micro_batches_counts) {
  // 1 ms input, 10 ms forward of which 2 are communication, 20 ms backward; then the same again.
  StepStamps step;
  step.communicating = {{0.003, 0.005}, {0.034, 0.036}};
  step.input_s = 0.001;
  step.forward_s = 0.011;
  step.backward_s = 0.031;
  step.add_earlier_micro_batch(0);
  step.input_s = 0.032;
  step.forward_s = 0.042;
  step.backward_s = step.combined_s = 0.062;
  step.applied_s = step.end_s = 0.063;
  EXPECT_NEAR(step.last_micro_batch_s(), 0.031, 1e-12);
  const RankStamps rank{.steps = {step}};
  const PhaseTimes times = break_down({rank, rank}).mean;
  EXPECT_NEAR(times.transfer_s, 0.004, 1e-9);
  EXPECT_NEAR(times.forward_s, 0.016, 1e-9);
  EXPECT_NEAR(times.backward_s, 0.040, 1e-9);
  expect_sums_to_step(times);
}

TEST(PhasesTest, what_moves_while_a_later_bucket_waits_is_transfer) {
  std::vector<RankStamps> ranks = two_ranks(0, 0);
  for (size_t rank = 0; rank < 2; ++rank) {
    for (StepStamps& step : ranks[rank].steps) {
      // The first bucket moves until 40 ms, the other rank issues the second at 36, which moves until 45.
      step.collectives[0].ended_s = step.begin_s + 0.040;
      step.collectives[1].issued_s = step.begin_s + (rank == 0 ? 0.031 : 0.036);
      step.collectives[1].ended_s = step.backward_s = step.combined_s = step.begin_s + 0.045;
      step.applied_s = step.end_s = step.begin_s + 0.047;
    }
  }
  const Breakdown found = break_down(ranks);
  EXPECT_NEAR(found.ranks[0].mean.waiting_s, 0, 1e-9);
  EXPECT_NEAR(found.ranks[0].mean.transfer_s, 0.014, 1e-9);
}

TEST(PhasesTest, a_rank_alone_neither_transfers_nor_waits) {
  RankStamps rank;
  rank.steps.push_back(step(0, 0, 0.023, 0.036));
  rank.steps.back().combined_s += 0.001;
  rank.steps.back().applied_s += 0.001;
  rank.steps.back().end_s += 0.001;
  const PhaseTimes times = break_down({rank}).mean;
  EXPECT_EQ(times.exposed_s(), 0);
  EXPECT_NEAR(times.other_s, 0.001 + 0.0005, 1e-9);
  expect_sums_to_step(times);
}

TEST(PhasesTest, ranks_with_different_steps_are_refused) {
  std::vector<RankStamps> ranks = two_ranks(0, 0);
  ranks[1].steps.pop_back();
  EXPECT_THROW(break_down(ranks), Error);
  EXPECT_THROW(break_down({}), Error);
}

}  // namespace
}  // namespace lockstep::measure
