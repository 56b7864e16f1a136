#include "lockstep/train/step/pacing.h"

#include <atomic>
#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/train/rows/row_estimate.h"

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

using measure::StoppingDecision;
using testing::HasSubstr;
using train::decide_pace;
using train::Duration;
using train::PacingOptions;

/// `slow` steps of twice the time, then steady ones with 1 % noise.
std::vector<double> steps_of(size_t count, size_t slow, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> noise(1, 0.01);
  std::vector<double> steps;
  for (size_t i = 0; i < count; ++i) steps.push_back(0.01 * noise(generator) * (i < slow ? 2 : 1));
  return steps;
}

TEST(PacingTest, a_number_of_steps_is_counted_from_where_warm_up_ended) {
  const PacingOptions options{.steps = 50};
  EXPECT_EQ(train::steps_to_first_decision(options), 53u);
  StoppingDecision decision = decide_pace(steps_of(53, 8), 0, options, nullptr);
  EXPECT_FALSE(decision.stop);
  EXPECT_EQ(decision.steady.cut, 8u);
  EXPECT_EQ(decision.steps_to_next, 5u);
  decision = decide_pace(steps_of(58, 8), 0, options, nullptr);
  EXPECT_TRUE(decision.stop);
  EXPECT_EQ(decision.steady.cut, 8u);
  EXPECT_THAT(decision.text, HasSubstr("50 steps"));
  EXPECT_THAT(decision.steady.chosen, HasSubstr("8 steps"));
}

TEST(PacingTest, periods_are_measured_whole) {
  const PacingOptions options{.warmup_steps = 5, .steps = 20, .period = 16};
  EXPECT_EQ(train::certain_warmup(options), 1u);
  EXPECT_EQ(train::steps_to_first_decision(options), 3u);
  EXPECT_EQ(train::expected_steps(options), 48);
  EXPECT_EQ(train::steps_were_run(options), "the 20 steps asked for were run, as 32 of whole periods");
  const StoppingDecision decision = decide_pace(steps_of(3, 1), 0, options, nullptr);
  EXPECT_TRUE(decision.stop);
  EXPECT_EQ(decision.steady.cut, 1u);
}

TEST(PacingTest, a_fixed_warm_up_stays_where_it_was_put) {
  const StoppingDecision decision = decide_pace(steps_of(300, 8), 3, {.warmup_steps = 12}, nullptr);
  EXPECT_TRUE(decision.stop);
  EXPECT_EQ(decision.steady.cut, 12u);
}

TEST(PacingTest, precision_ends_a_row_and_so_does_its_time) {
  EXPECT_FALSE(decide_pace(steps_of(20, 3), 1, {}, nullptr).stop);
  EXPECT_FALSE(decide_pace(steps_of(150, 3), 2, {}, nullptr).stop) << "1.5 s of steps";
  const StoppingDecision precise = decide_pace(steps_of(300, 3), 3, {}, nullptr);
  EXPECT_TRUE(precise.stop);
  EXPECT_THAT(precise.text, HasSubstr("precise"));
  EXPECT_EQ(precise.steady.unsettled_reason, "");
  EXPECT_FALSE(decide_pace(steps_of(300, 3), 3, {.precision_target = 1e-4}, nullptr).stop);
  const StoppingDecision late = decide_pace(steps_of(20, 3), 61, {.max_time_s = 60}, nullptr);
  EXPECT_TRUE(late.stop);
  EXPECT_THAT(late.text, HasSubstr("60 s"));
}

TEST(PacingTest, steps_are_planned_for_seconds_so_that_slower_ones_end_in_time) {
  const PacingOptions hour{.min_time_s = 3600, .max_time_s = 3600};
  EXPECT_NEAR(static_cast<double>(decide_pace(steps_of(100, 3), 1, hour, nullptr).steps_to_next), 1000, 20);
  EXPECT_NEAR(static_cast<double>(decide_pace(steps_of(100, 3), 1000, hour, nullptr).steps_to_next), 10000,
              200);
}

TEST(PacingTest, a_warm_up_that_is_not_given_counts_as_long_as_it_must_be) {
  for (const PacingOptions& options :
       {PacingOptions{.steps = 20}, PacingOptions{.warmup_steps = 5, .steps = 20}})
    EXPECT_EQ(static_cast<size_t>(train::expected_steps(options)), train::steps_to_first_decision(options));
  EXPECT_EQ(train::expected_steps({.steps = 20}), 23);
}

TEST(PacingTest, the_expected_duration_is_a_range_where_the_number_of_steps_is_open) {
  const train::StepCost cost{.set_up_s = 1, .step_s = 0.5};
  const auto expect = [&](const PacingOptions& pacing, double least_s, double most_s) {
    train::RowPlan row;
    row.pacing = pacing;
    const Duration duration = train::duration_of(row, cost, /*breakdown=*/false);
    EXPECT_DOUBLE_EQ(duration.least_s, least_s);
    EXPECT_DOUBLE_EQ(duration.most_s, most_s);
  };
  expect({.steps = 20}, 1 + 23 * 0.5, 1 + 23 * 0.5);
  expect({.min_time_s = 2, .max_time_s = 60}, 1 + 2, 61);
  expect({.min_time_s = 10, .max_time_s = 60}, 11, 61);
  expect({.max_time_s = 1}, 1 + 1, 1 + 1);
}

TEST(PacingTest, gradients_are_exchanged_where_ranks_train_together) {
  train::RowPlan row;
  row.model = "alexnet";
  const auto of = [&](const char* strategy, int ranks, int free_cores) {
    row.strategy = strategy;
    row.ranks = ranks;
    return train::exchange_s(row, 0.1, ranks, free_cores);
  };
  for (const char* strategy : {"single", "independent"}) EXPECT_EQ(of(strategy, 2, 0), 0);
  EXPECT_EQ(of("ddp", 1, 0), 0);
  EXPECT_GT(of("ddp", 2, 0), of("ddp", 2, 2)) << "free cores move bytes behind the backward pass";
  EXPECT_NEAR(of("ddp", 4, 0) / of("ddp", 2, 0), 1.5, 1e-9);
}

TEST(PacingTest, a_row_that_ends_within_its_warm_up_says_so) {
  std::vector<double> steps = steps_of(60, 0);
  for (size_t i = 0; i < steps.size(); ++i) steps[i] *= 1 + 2 * std::exp(-static_cast<double>(i) / 25);
  for (const PacingOptions& options : {PacingOptions{.max_time_s = 1}, PacingOptions{.steps = 30}}) {
    const StoppingDecision decision = decide_pace(steps, 2, options, nullptr);
    EXPECT_TRUE(decision.stop);
    EXPECT_NE(decision.steady.unsettled_reason, "");
  }
}

TEST(PacingTest, when_the_time_is_over_within_warm_up_its_last_step_is_the_one_that_is_measured) {
  for (const PacingOptions& options :
       {PacingOptions{.warmup_steps = 5}, PacingOptions{.warmup_steps = 5, .steps = 9, .max_time_s = 60}}) {
    const StoppingDecision decision = decide_pace(steps_of(5, 0), 100, options, nullptr);
    EXPECT_TRUE(decision.stop);
    EXPECT_EQ(decision.steady.cut, 4u);
    EXPECT_EQ(decision.steady.unsettled_reason, measure::kWarmupNotOver);
  }
}

TEST(PacingTest, the_time_ends_a_row_of_a_given_number_of_steps_too) {
  const PacingOptions options{.warmup_steps = 2, .steps = 1000, .max_time_s = 10};
  // The first tells how long they take: eight of them may be too long.
  EXPECT_EQ(train::steps_to_first_decision(options), 1u);
  EXPECT_EQ(decide_pace(steps_of(1, 0), 2, options, nullptr).steps_to_next, 2u);
  EXPECT_EQ(decide_pace(steps_of(1, 0), 0.001, options, nullptr).steps_to_next, 1001u);
  EXPECT_TRUE(decide_pace(steps_of(1, 0), 11, options, nullptr).stop);
  EXPECT_TRUE(decide_pace(steps_of(1, 0), 11, {.max_time_s = 10}, nullptr).stop);
  // Half of the 9 seconds that are left.
  StoppingDecision decision = decide_pace(steps_of(10, 0), 1, options, nullptr);
  EXPECT_FALSE(decision.stop);
  EXPECT_EQ(decision.steps_to_next, 45u);
  decision = decide_pace(steps_of(97, 0), 9.9, options, nullptr);
  EXPECT_EQ(decision.steps_to_next, 1u);
  decision = decide_pace(steps_of(98, 0), 10, options, nullptr);
  EXPECT_TRUE(decision.stop);
  EXPECT_EQ(decision.text, "the time of 10 s is over, and 96 of 1000 steps were measured");
  // Where there is time, no more pauses than one and no step more than asked for.
  EXPECT_EQ(decide_pace(steps_of(10, 0), 0.01, options, nullptr).steps_to_next, 992u);
  EXPECT_EQ(decide_pace(steps_of(1, 0), 0.1, {.warmup_steps = 2, .steps = 3, .max_time_s = 10}, nullptr)
                .steps_to_next,
            4u);
  EXPECT_FALSE(decide_pace(steps_of(10, 0), 1000, {.warmup_steps = 2, .steps = 1000}, nullptr).stop);
}

TEST(PacingTest, a_row_of_a_given_number_of_steps_ends_in_time_on_all_ranks) {
  std::atomic<size_t> steps{0};
  test::with_thread_ranks(2, [&](comm::Communicator& group) {
    test::TrainedReplica replica = test::make_replica({.model = "lenet5", .strategy = "ddp"}, &group);
    launch::Progress progress;
    const train::StepLoopResult result = train::run_steps(
        {*replica.model, *replica.input, *replica.strategy, &group},
        {.pacing = {.warmup_steps = 1000000, .steps = 1000000, .max_time_s = 0.2}}, progress);
    EXPECT_EQ(result.step_s.size(), 1u);
    steps += group.rank() == 0 ? result.warmup_s.size() : -result.warmup_s.size();
  });
  EXPECT_EQ(steps, 0u);
}

TEST(PacingTest, all_ranks_decide_the_same_from_the_slowest_of_each_step) {
  std::atomic<int> stopped{0};
  test::with_thread_ranks(3, [&](comm::Communicator& group) {
    // One rank's own steps would say that warm-up took longer.
    const auto own = steps_of(53, group.rank() == 2 ? 8 : 3, static_cast<unsigned>(group.rank()));
    const StoppingDecision decision = decide_pace(own, 0, {.steps = 50}, &group);
    EXPECT_EQ(decision.steady.cut, 8u);
    EXPECT_EQ(decision.steps_to_next, 5u);
    stopped += decision.stop ? 1 : 0;
  });
  EXPECT_EQ(stopped, 0);
}

TEST(PacingTest, a_row_runs_until_it_is_known_well_enough) {
  std::atomic<size_t> most{0};
  std::atomic<size_t> fewest{1000000};
  test::with_thread_ranks(2, [&](comm::Communicator& group) {
    test::TrainedReplica replica = test::make_replica({.model = "lenet5", .strategy = "ddp"}, &group);
    launch::Progress progress;
    const train::StepLoopResult result =
        train::run_steps({*replica.model, *replica.input, *replica.strategy, &group},
                         {.pacing = {.precision_target = 0.2, .min_time_s = 0.2, .max_time_s = 3}}, progress);
    const size_t steps = result.warmup_s.size() + result.step_s.size();
    EXPECT_GE(result.warmup_s.size(), 3u);
    EXPECT_EQ(static_cast<size_t>(progress.snapshot().step), steps);
    EXPECT_EQ(result.ending.stopped.empty(), group.rank() != 0);
    most = std::max(most.load(), steps);
    fewest = std::min(fewest.load(), steps);
  });
  EXPECT_EQ(most, fewest);
}

}  // namespace
}  // namespace lockstep
