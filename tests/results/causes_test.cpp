#include "lockstep/results/tables/causes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/render.h"
#include "lockstep/results/tables/tables.h"

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Kind = Cause::Kind;
using measure::PhaseSeries;

constexpr double kStep = 0.1;

/// Two ranks whose communication is hidden, with two buckets of an all-reduce each.
Run recorded_run(double waiting_s = 0, double transfer_s = 0) {
  auto run = measured_run("ddp", 2, 40, kStep);
  run.breakdown = breakdown_of(2, kStep, waiting_s, transfer_s);
  run.recorded = Recorded{.by = "PyTorch 2.11.0's profiler", .ranks = {0, 1}, .steps = 8};
  run.recorded->collectives = {{"all-reduce", "0", 1 << 20}, {"all-reduce", "0", 1 << 20}};
  return run;
}

/// Gives a bucket of all ranks its times after the begin of a step, and how much of its transfer is exposed.
void set_bucket(Run& run, size_t bucket, double arrived_s, double ended_s, double exposed_s = 0) {
  for (RankBreakdown& rank : run.breakdown->ranks) {
    rank.buckets.resize(run.recorded->collectives.size());
    rank.buckets[bucket] = {
        run.recorded->collectives[bucket].bytes, arrived_s, arrived_s, arrived_s, ended_s, exposed_s};
  }
}

/// Makes rank 1 the one that is waited for, because `phase` takes longer by `longer_s`.
void slow_down(Run& run, std::vector<double> PhaseSeries::*phase, double longer_s) {
  run.breakdown->straggler = 1;
  for (double& each : run.breakdown->ranks[1].series.*phase) each += longer_s;
  run.breakdown->ranks[1].mean.waiting_s = 0;
}

std::vector<Kind> kinds_of(const Run& run) {
  std::vector<Kind> kinds;
  for (const Cause& cause : causes_of(run)) kinds.push_back(cause.kind);
  return kinds;
}

TEST(CausesTest, a_healthy_run_has_none) {
  auto run = recorded_run(0.0005, 0.001);
  set_bucket(run, 0, 0.05, 0.051);
  set_bucket(run, 1, 0.07, 0.071);
  EXPECT_THAT(kinds_of(run), ElementsAre());
  EXPECT_THAT(kinds_of(measured_run("ddp", 2, 40, kStep)), ElementsAre());
}

TEST(CausesTest, a_slow_rank_is_named_with_its_phase) {
  auto run = recorded_run(0.02, 0.001);
  slow_down(run, &PhaseSeries::input_s, 0.019);
  const std::vector<Cause> causes = causes_of(run);
  ASSERT_EQ(causes.size(), 1);
  EXPECT_EQ(causes[0].kind, Kind::kSlowRank);
  EXPECT_THAT(causes[0].text, HasSubstr("rank 1's input takes 19"));
}

TEST(TimelineTest, ranks_of_a_recording_of_some_have_their_numbers) {
  RunRecord record;
  record.runs = {recorded_run(0.01, 0.01)};
  record.runs[0].ranks = 4;
  record.runs[0].recorded->ranks = {1, 3};
  EXPECT_THAT(to_text(timeline(record)),
              testing::AllOf(HasSubstr("rank 1 "), HasSubstr("rank 3 "), Not(HasSubstr("rank 0 "))));
}

TEST(CausesTest, a_phase_that_explains_half_of_the_waiting_is_not_named) {
  auto run = recorded_run(0.02, 0.001);
  slow_down(run, &PhaseSeries::forward_s, 0.01);
  EXPECT_THAT(kinds_of(run), ElementsAre());
}

TEST(CausesTest, a_slow_rank_whose_phases_only_together_explain_the_waiting) {
  auto run = recorded_run(0.02, 0.001);
  slow_down(run, &PhaseSeries::forward_s, 0.013);
  slow_down(run, &PhaseSeries::backward_s, 0.009);
  const std::vector<Cause> causes = causes_of(run);
  ASSERT_EQ(causes.size(), 1);
  EXPECT_THAT(causes[0].text, HasSubstr("rank 1's forward pass takes 13"));
  slow_down(run, &PhaseSeries::input_s, 0.008);
  EXPECT_THAT(causes_of(run).at(0).text, HasSubstr("rank 1's step without communication takes 30"));
}

TEST(CausesTest, a_phase_that_is_longer_while_others_are_shorter_is_named) {
  auto run = recorded_run(0.02, 0.001);
  slow_down(run, &PhaseSeries::forward_s, 0.018);
  slow_down(run, &PhaseSeries::backward_s, -0.006);
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kSlowRank));
}

TEST(CausesTest, one_step_that_is_disturbed_hides_no_slow_rank) {
  auto run = recorded_run(0.02, 0.001);
  for (int step = 0; step < 18; ++step) {
    for (RankBreakdown& rank : run.breakdown->ranks) rank.series.add(rank.mean);
  }
  slow_down(run, &PhaseSeries::forward_s, 0.018);
  run.breakdown->straggler.reset();
  run.breakdown->ranks[0].series.forward_s[3] += 0.2;
  run.breakdown->ranks[0].series.waiting_s[5] += 0.3;
  const std::vector<Cause> causes = causes_of(run);
  ASSERT_EQ(causes.size(), 1);
  EXPECT_THAT(causes[0].text, HasSubstr("rank 1's forward pass takes 18"));
}

TEST(CausesTest, communication_beside_the_backward_pass_makes_no_slow_rank) {
  auto run = recorded_run(0.005, 0.001);
  slow_down(run, &PhaseSeries::backward_s, 0.005);
  EXPECT_THAT(kinds_of(run), ElementsAre());
  // A slow device makes both passes longer.
  slow_down(run, &PhaseSeries::forward_s, 0.0025);
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kSlowRank));
}

// The rank that comes late communicates during its backward pass, while the others have nothing else to do.
TEST(CausesTest, communication_of_a_late_rank_hides_no_cause) {
  auto run = recorded_run(0.014, 0.001);
  slow_down(run, &PhaseSeries::forward_s, 0.009);
  slow_down(run, &PhaseSeries::backward_s, 0.005);
  EXPECT_THAT(causes_of(run).at(0).text, HasSubstr("rank 1's forward pass takes 9"));
}

TEST(CausesTest, a_rank_that_is_slow_by_chance_is_not_named) {
  auto run = recorded_run(0.02, 0.001);
  slow_down(run, &PhaseSeries::backward_s, 0.018);
  auto& backward_s = run.breakdown->ranks[1].series.backward_s;
  backward_s.front() -= 0.02;
  backward_s.back() += 0.02;
  EXPECT_THAT(kinds_of(run), ElementsAre());
}

TEST(CausesTest, unequal_batches_explain_a_slow_rank) {
  auto run = recorded_run(0.02, 0.001);
  slow_down(run, &PhaseSeries::backward_s, 0.02);
  run.recorded->batches = {32, 48};
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kUnequalBatches));
}

TEST(CausesTest, an_input_that_starves_every_rank) {
  auto run = recorded_run();
  for (RankBreakdown& rank : run.breakdown->ranks) rank.mean.input_s = 0.03;
  run.breakdown->mean.input_s = 0.03;
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kInput));
}

TEST(CausesTest, an_all_reduce_in_every_micro_batch) {
  auto run = recorded_run(0, 0.02);
  run.accumulate = 2;
  set_bucket(run, 0, 0.03, 0.04);
  set_bucket(run, 1, 0.08, 0.09);
  const std::vector<Cause> causes = causes_of(run);
  ASSERT_EQ(causes.size(), 1);
  EXPECT_EQ(causes[0].kind, Kind::kReducedTooOften);
  EXPECT_NEAR(causes[0].lost_s, 0.01, 1e-9);
  EXPECT_THAT(causes[0].advice, HasSubstr("no_sync()"));
}

TEST(CausesTest, an_all_reduce_in_every_micro_batch_that_backward_hides) {
  auto run = recorded_run(0, 0.001);
  run.accumulate = 2;
  set_bucket(run, 0, 0.03, 0.04);
  set_bucket(run, 1, 0.08, 0.09, 0.001);
  const std::vector<Cause> causes = causes_of(run);
  ASSERT_EQ(causes.size(), 1);
  EXPECT_EQ(causes[0].kind, Kind::kReducedTooOften);
  EXPECT_THAT(causes[0].text, HasSubstr("ms of needless communication"));
}

TEST(CausesTest, buffers_broadcast_in_forward) {
  auto run = recorded_run(0, 0.01);
  run.recorded->collectives[0].kind = "broadcast";
  set_bucket(run, 0, 0.001, 0.011, 0.01);
  set_bucket(run, 1, 0.06, 0.061);
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kBuffers));
}

TEST(CausesTest, buffers_beside_a_large_bucket_that_is_hidden) {
  auto run = recorded_run(0, 0.012);
  run.recorded->collectives = {
      {"broadcast", "0", 16 << 20}, {"all-reduce", "0", 100 << 20}, {"all-reduce", "0", 1 << 20}};
  set_bucket(run, 0, 0.001, 0.009, 0.008);
  set_bucket(run, 1, 0.04, 0.055);
  set_bucket(run, 2, 0.07, 0.075, 0.004);
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kBuffers));
}

TEST(CausesTest, parameters_that_are_broadcast_after_their_update_are_no_buffers) {
  auto run = recorded_run(0, 0.01);
  run.recorded->collectives[1].kind = "broadcast";
  set_bucket(run, 0, 0.05, 0.051);
  set_bucket(run, 1, 0.09, 0.1, 0.01);
  EXPECT_THAT(kinds_of(run), Not(Contains(Kind::kBuffers)));
}

TEST(CausesTest, one_large_bucket) {
  auto run = recorded_run(0, 0.02);
  run.recorded->collectives[1].bytes = 100 << 20;
  set_bucket(run, 0, 0.04, 0.041);
  set_bucket(run, 1, 0.07, 0.09, 0.02);
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kLargeBucket));
}

TEST(CausesTest, a_last_bucket_that_nothing_hides) {
  auto run = recorded_run(0, 0.01);
  run.recorded->collectives.assign(3, {"all-reduce", "0", 2 << 20});
  set_bucket(run, 0, 0.04, 0.05);
  set_bucket(run, 1, 0.05, 0.06);
  set_bucket(run, 2, 0.08, 0.09, 0.01);
  const std::vector<Cause> causes = causes_of(run);
  ASSERT_EQ(causes.size(), 1);
  EXPECT_EQ(causes[0].kind, Kind::kLateBucket);
  EXPECT_THAT(causes[0].text, HasSubstr("0.21 GB/s"));
}

TEST(CausesTest, a_small_last_bucket_is_as_good_as_it_gets) {
  auto run = recorded_run(0, 0.003);
  set_bucket(run, 0, 0.04, 0.05);
  set_bucket(run, 1, 0.08, 0.083, 0.003);
  EXPECT_THAT(kinds_of(run), ElementsAre());
}

TEST(CausesTest, buckets_of_two_lanes_that_move_at_the_same_time_are_no_slow_link) {
  auto run = recorded_run(0, 0.004);
  set_bucket(run, 0, 0.045, 0.08, 0.002);
  set_bucket(run, 1, 0.047, 0.082, 0.002);
  EXPECT_THAT(kinds_of(run), Not(Contains(Kind::kSlowLink)));
}

TEST(CausesTest, a_link_that_is_slower_than_backward) {
  auto run = recorded_run(0, 0.03);
  set_bucket(run, 0, 0.02, 0.06);
  set_bucket(run, 1, 0.06, 0.09);
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kSlowLink));
}

/// A device that has nothing to do for half of the window.
RecordedWork half_idle() {
  return {.on_device = true, .window_s = 1, .exposed_s = 0.1, .compute_s = 0.4, .kernels = 1000};
}

TEST(CausesTest, a_device_that_waits_for_a_host_that_waits_for_it) {
  auto run = recorded_run();
  run.recorded->work = {half_idle()};
  run.recorded->work[0].synchronizations = 80;
  run.recorded->work[0].synchronized_s = 0.6;
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kSynchronizing));
  run.recorded->work[0].compute_s = 0.85;
  EXPECT_THAT(kinds_of(run), ElementsAre());
}

TEST(CausesTest, a_host_that_waits_for_nothing_and_is_too_slow_for_its_device) {
  auto run = recorded_run();
  run.recorded->work = {half_idle()};
  run.recorded->work[0].synchronizations = 80;
  run.recorded->work[0].synchronized_s = 0.001;
  const std::vector<Cause> causes = causes_of(run);
  ASSERT_THAT(kinds_of(run), ElementsAre(Kind::kSlowHost));
  EXPECT_THAT(causes[0].text,
              HasSubstr("the 100 kernels of a step that the device is idle for 50\u00a0% of the time"));
  // The host is slow because of the profiler.
  run.recorded->window_cost = 1.7;
  EXPECT_THAT(kinds_of(run), ElementsAre());
}

TEST(CausesTest, every_tenth_step_takes_longer) {
  auto run = recorded_run();
  for (size_t i = 3; i < run.samples.size(); i += 10) run.samples[i][0] += 0.2;
  const std::vector<Cause> causes = causes_of(run);
  ASSERT_EQ(causes.size(), 1);
  EXPECT_EQ(causes[0].kind, Kind::kPeriodic);
  EXPECT_THAT(causes[0].text, HasSubstr("every 10 steps one takes 200"));
}

TEST(CausesTest, periods_go_on_in_warm_up_and_behind_the_window) {
  auto run = recorded_run();
  run.recorded->window_at = run.recorded->window_steps = 25;
  const auto cut = run.samples.begin() + 25;
  run.warmup_samples.assign(run.samples.begin(), cut);
  run.samples.erase(run.samples.begin(), cut);
  for (const size_t i : {0U, 1U, 9U, 19U}) run.warmup_samples[i][0] += 0.2;
  for (const size_t i : {9U}) run.samples[i][0] += 0.2;
  const std::vector<Cause> causes = causes_of(run);
  ASSERT_EQ(causes.size(), 1);
  EXPECT_THAT(causes[0].text, HasSubstr("every 10 steps one takes 200"));
}

TEST(CausesTest, long_steps_without_a_period_are_noise) {
  auto run = recorded_run();
  for (const size_t i : {3U, 5U, 14U, 17U, 33U}) run.samples[i][0] += 0.2;
  EXPECT_THAT(kinds_of(run), ElementsAre());
}

TEST(CausesTest, the_summary_begins_with_the_answer) {
  RunRecord record;
  record.source = kRecordedSource;
  auto run = recorded_run(0.02, 0.001);
  slow_down(run, &PhaseSeries::input_s, 0.019);
  record.runs = {measured_run(kSingle, 1, 40, kStep / 1.5), std::move(run)};
  assign_baselines(record);
  const std::string text = render(record, {});
  EXPECT_THAT(text, HasSubstr("2 ranks reach 1.33 times one"));
  EXPECT_THAT(text, HasSubstr("20.0 ms waiting for rank 1 (rank 1's input"));
}

}  // namespace
}  // namespace lockstep::results
