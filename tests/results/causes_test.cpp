#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/measure/series.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/tables.h"

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

using testing::AllOf;
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

/// With spaces that break.
std::string plain(std::string text) {
  const std::string hard = "\u00a0";
  for (size_t at = 0; (at = text.find(hard, at)) != std::string::npos;) text.replace(at, hard.size(), " ");
  return text;
}

std::string causes_text(const Run& run) {
  std::string text;
  for (const Cause& cause : causes_of(run)) text += cause.text + " | " + cause.advice + "\n";
  return plain(text);
}

/// The sentences of the summary.
std::string summary_of(Run run) {
  RunRecord record;
  record.source = kRecordedSource;
  record.runs = {std::move(run)};
  std::string text;
  for (const std::string& sentence : recorded_sentences(record, record.runs.front())) text += sentence + "\n";
  return plain(text);
}

/// Gives a bucket of all ranks its times after the begin of a step, and how much of its transfer is exposed.
void set_bucket(Run& run, size_t bucket, double arrived_s, double ended_s, double exposed_s = 0) {
  for (RankBreakdown& rank : run.breakdown->ranks) {
    rank.buckets.resize(run.recorded->collectives.size());
    rank.buckets[bucket] = {
        run.recorded->collectives[bucket].bytes, arrived_s, arrived_s, arrived_s, ended_s, exposed_s};
  }
}

/// Gives both ranks the time that they wait for the batch of each step.
void set_input(Run& run, const std::vector<double>& input_s) {
  run.breakdown->mean.input_s = measure::mean_of(input_s);
  for (RankBreakdown& rank : run.breakdown->ranks) {
    rank.mean.input_s = run.breakdown->mean.input_s;
    rank.series.input_s = input_s;
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
              testing::AllOf(HasSubstr("rank 1 "), HasSubstr("rank 3 "), Not(HasSubstr("rank 0 ")),
                             Not(HasSubstr("are drawn"))));
}

TEST(TimelineTest, ranks_that_are_not_drawn_are_counted) {
  RunRecord record;
  record.runs = {recorded_run(0.01, 0.01)};
  results::Run& run = record.runs[0];
  run.ranks = 8;
  run.recorded->ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  run.breakdown->ranks.resize(8, run.breakdown->ranks[0]);
  EXPECT_THAT(to_text(timeline(record)), HasSubstr("4 of 8 ranks are drawn."));
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
  set_input(run, std::vector<double>(20, 0.03));
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kInput));
  EXPECT_THAT(causes_text(run), AllOf(HasSubstr("every step waits 30.0"), HasSubstr("num_workers")));
}

TEST(CausesTest, one_step_of_twenty_that_waits_is_not_every_step) {
  auto run = recorded_run();
  std::vector<double> input_s(20, 0.0001);
  input_s[7] = 0.5;
  set_input(run, input_s);
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kFewInputs));
  EXPECT_THAT(causes_text(run),
              AllOf(HasSubstr("1 of 20 steps"), HasSubstr("500 ms for its batch, and the others 100"),
                    Not(HasSubstr("every step"))));
}

TEST(CausesTest, the_first_batch_of_every_epoch_is_one_cause_with_its_distance) {
  auto run = recorded_run();
  for (size_t i = 3; i < run.samples.size(); i += 10) run.samples[i][0] += 0.5;
  std::vector<double> input_s(20, 0.0001);
  input_s[7] = input_s[17] = 0.5;
  set_input(run, input_s);
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kFewInputs));
  EXPECT_THAT(causes_text(run),
              AllOf(HasSubstr("one of 10 steps waits 500 ms"), HasSubstr("persistent_workers=True")));
}

TEST(CausesTest, time_before_the_first_operation_is_no_loaders_without_one) {
  auto run = recorded_run();
  set_input(run, std::vector<double>(20, 0.03));
  run.recorded->has_loader = false;
  EXPECT_THAT(
      causes_text(run),
      AllOf(HasSubstr("every step spends 30.0 ms in the script's own Python before its first operation"),
            Not(HasSubstr("num_workers"))));
}

TEST(CausesTest, threads_above_the_cores_come_first_and_explain_a_slow_input) {
  auto run = recorded_run(0.02, 0.001);
  set_input(run, std::vector<double>(2, 0.03));
  slow_down(run, &PhaseSeries::forward_s, 0.019);
  run.recorded->threads = {8, 8};
  run.recorded->cores = {2, 2};
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kThreads));
  EXPECT_THAT(causes_text(run), AllOf(HasSubstr("2 ranks of 8 threads each take turns on the 2 cores"),
                                      HasSubstr("OMP_NUM_THREADS=1 ")));
  run.recorded->threads = {1, 1};
  EXPECT_THAT(kinds_of(run), Not(Contains(Kind::kThreads)));
}

TEST(CausesTest, idle_threads_above_the_cores_slow_nothing_down) {
  auto run = recorded_run();
  run.recorded->threads = {8, 8};
  run.recorded->cores = {2, 2};
  for (RankBreakdown& rank : run.breakdown->ranks)
    rank.processor = {.backward_s = rank.mean.backward_s, .optimizer_s = rank.mean.optimizer_s};
  EXPECT_THAT(kinds_of(run), ElementsAre());
  for (RankBreakdown& rank : run.breakdown->ranks) rank.processor.backward_s /= 2;
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kThreads));
}

TEST(CausesTest, fewer_than_three_steps_have_no_cause) {
  auto run = recorded_run(0, 0.03);
  set_bucket(run, 0, 0.02, 0.06, 0.02);
  set_bucket(run, 1, 0.06, 0.09, 0.01);
  run.recorded->steps = 2;
  EXPECT_THAT(kinds_of(run), ElementsAre());
  EXPECT_THAT(summary_of(run), HasSubstr("three steps or more"));
  run.recorded->steps = 3;
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kSlowLink));
}

TEST(CausesTest, a_window_within_warm_up_has_no_other_cause) {
  auto run = recorded_run();
  set_input(run, std::vector<double>(20, 0.05));
  run.recorded->window_at = 10;
  run.recorded->window_steps = 25;
  run.warmup_samples.assign(12, {42 * kStep, 42 * kStep});
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kWarmUp));
  EXPECT_THAT(causes_text(run),
              AllOf(HasSubstr("a warm-up of 37 steps, which take 41.9"), HasSubstr("--steps 42:62")));
  // It ended before the window.
  run.recorded->window_at = 15;
  EXPECT_THAT(kinds_of(run), Not(Contains(Kind::kWarmUp)));
}

TEST(CausesTest, other_work_that_comes_and_goes_is_no_warm_up) {
  auto run = recorded_run();
  set_input(run, std::vector<double>(20, 0.05));
  run.recorded->window_at = 10;
  run.recorded->window_steps = 25;
  run.warmup_samples.assign(12, {3 * kStep, 3 * kStep});
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kWarmUp));
  for (size_t i = 0; i < run.samples.size(); i += 8) run.samples[i] = {4 * kStep, 4 * kStep};
  EXPECT_THAT(kinds_of(run), AllOf(Contains(Kind::kInput), Not(Contains(Kind::kWarmUp))));
}

/// Two ranks of which the one with the larger input is waited for, in turn.
Run run_of_unequal_sizes() {
  auto run = recorded_run(0.02, 0.001);
  run.breakdown->straggler.reset();
  run.recorded->input_elements.resize(2);
  for (RankBreakdown& rank : run.breakdown->ranks) rank.series = {};
  for (int step = 0; step < 12; ++step) {
    for (size_t place = 0; place < 2; ++place) {
      RankBreakdown& rank = run.breakdown->ranks[place];
      const bool large = step % 2 == static_cast<int>(place);
      PhaseTimes times = rank.mean;
      times.waiting_s = large ? 0 : 0.04;
      rank.series.add(times);
      run.recorded->input_elements[place].push_back(large ? 4096 : 1024);
    }
  }
  return run;
}

TEST(CausesTest, inputs_of_other_sizes_are_waited_for_in_turn) {
  auto run = run_of_unequal_sizes();
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kUnequalSizes));
  EXPECT_THAT(causes_text(run), AllOf(HasSubstr("in 12 of 12 steps"), HasSubstr("pad them")));
  // Sizes that agree explain nothing.
  run.recorded->input_elements[1] = run.recorded->input_elements[0];
  EXPECT_THAT(kinds_of(run), ElementsAre());
  EXPECT_THAT(summary_of(run), HasSubstr("20.0 ms waiting for others, who change from step to step"));
}

TEST(CausesTest, waiting_for_larger_inputs_is_no_latency) {
  auto run = run_of_unequal_sizes();
  run.recorded->collectives = {{"all-reduce", "0", 84}};
  run.breakdown->mean.transfer_s = 0.01;
  set_bucket(run, 0, 0.07, 0.09, 0.01);
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kUnequalSizes));
  // Of inputs that are equal it is.
  run.recorded->input_elements[1] = run.recorded->input_elements[0];
  EXPECT_THAT(kinds_of(run), Contains(Kind::kLatency));
}

TEST(CausesTest, a_slow_rank_other_than_the_straggler_is_not_named) {
  auto run = recorded_run(0.02, 0.001);
  slow_down(run, &PhaseSeries::input_s, 0.019);
  run.breakdown->straggler = 0;
  EXPECT_THAT(kinds_of(run), ElementsAre());
  EXPECT_THAT(summary_of(run),
              AllOf(HasSubstr("waiting for rank 0, 1.00 ms transfer"), Not(HasSubstr("rank 1"))));
}

TEST(CausesTest, an_all_reduce_in_every_micro_batch) {
  auto run = recorded_run(0, 0.02);
  run.accumulate = 2;
  run.recorded->gradients = {{1 << 18}};
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
  run.recorded->gradients = {{1 << 18}};
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

TEST(CausesTest, gradients_that_are_reduced_again) {
  auto run = recorded_run(0, 0.02);
  run.recorded->collectives = {{"all-reduce", "0", 3 << 20}, {"all-reduce", "0", 1 << 20}};
  for (int i = 0; i < 4; ++i) {
    run.recorded->collectives.push_back({"all-reduce", "0", 1 << 20});
    run.recorded->gradients.push_back({1 << 18});
  }
  set_bucket(run, 0, 0.04, 0.05);
  set_bucket(run, 1, 0.05, 0.06);
  for (size_t i = 2; i < 6; ++i) set_bucket(run, i, 0.05 + 0.005 * i, 0.055 + 0.005 * i, 0.005);
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kReducedTooOften));
  EXPECT_THAT(causes_text(run), AllOf(HasSubstr("a step reduces 2 times all gradients"),
                                      HasSubstr("in the last 4 all-reduces of 1.0 MiB on average"),
                                      HasSubstr("leave out the script's own")));
  run.recorded->collectives.pop_back();
  EXPECT_THAT(kinds_of(run), Not(Contains(Kind::kReducedTooOften)));
}

/// 24 small all-reduces, each waited for in the middle of computing, and one bucket.
Run run_of_blocking_collectives() {
  auto run = recorded_run(0, 0.05);
  run.recorded->collectives.assign(24, {"all-reduce", "0", 256});
  run.recorded->collectives.push_back({"all-reduce", "0", 4096});
  for (size_t i = 0; i < 24; ++i) set_bucket(run, i, 0.004 * i, 0.004 * i + 0.002, 0.002);
  set_bucket(run, 24, 0.099, 0.1, 0.001);
  PhaseTimes& mean = run.breakdown->mean;
  mean.input_s = 0.001;
  mean.forward_s = 0.02;
  mean.backward_s = 0.03;
  return run;
}

TEST(CausesTest, collectives_that_forward_and_backward_wait_for) {
  auto run = run_of_blocking_collectives();
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kBlocking));
  EXPECT_THAT(
      causes_text(run),
      AllOf(HasSubstr("wait for 24 all-reduces of 256 B on average, of 25 collectives"),
            HasSubstr("for 48.0 ms of latency"), HasSubstr("Fewer or joined ones"), Not(HasSubstr("GB/s"))));
}

TEST(CausesTest, collectives_whose_ends_are_written_late_block_all_the_same) {
  auto run = run_of_blocking_collectives();
  for (RankBreakdown& rank : run.breakdown->ranks) {
    for (auto& bucket : rank.buckets) bucket.exposed_s *= 0.7;
  }
  run.breakdown->mean.transfer_s = 0.04;
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kBlocking));
  EXPECT_THAT(causes_text(run), HasSubstr("for 40.0 ms of latency"));
}

TEST(CausesTest, all_reduces_after_backward_block_no_computing) {
  auto run = run_of_blocking_collectives();
  run.strategy = "recorded";
  for (size_t i = 0; i < 25; ++i) set_bucket(run, i, 0.051 + 0.0019 * i, 0.0529 + 0.0019 * i, 0.0019);
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kManyCollectives));
  EXPECT_THAT(causes_text(run),
              AllOf(HasSubstr("a step has 25 all-reduces"), HasSubstr("or one flat tensor")));
}

TEST(CausesTest, many_collectives_of_unknown_sizes) {
  auto run = recorded_run(0, 0.03);
  run.strategy = "recorded";
  run.recorded->collectives.assign(50, {"all-reduce", "", 0});
  for (size_t i = 0; i < 50; ++i) set_bucket(run, i, 0.056 + 0.0006 * i, 0.0566 + 0.0006 * i, 0.0006);
  EXPECT_THAT(causes_text(run), AllOf(HasSubstr("a step has 50 all-reduces |"), Not(HasSubstr("0 B"))));
}

TEST(CausesTest, few_bytes_are_latency_and_not_a_link) {
  auto run = recorded_run(0, 0.06);
  run.recorded->collectives = {{"all-reduce", "0", 84}};
  set_bucket(run, 0, 0.03, 0.09, 0.06);
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kLatency));
  EXPECT_THAT(causes_text(run),
              AllOf(HasSubstr("1 all-reduce of 84 B takes 60.0 ms of latency"), Not(HasSubstr("GB/s")),
                    Not(HasSubstr("hook")), Not(HasSubstr("path"))));
}

TEST(CausesTest, a_link_and_late_ranks_are_told_apart_by_all_traces_only) {
  auto run = recorded_run(0, 0.03);
  run.ranks = 8;
  set_bucket(run, 0, 0.02, 0.06, 0.02);
  set_bucket(run, 1, 0.06, 0.09, 0.01);
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kLinkOrLateRanks));
  EXPECT_THAT(causes_text(run), AllOf(HasSubstr("a link, or ranks that come later"),
                                      HasSubstr("Import the others' traces"), Not(HasSubstr("GB/s"))));
}

TEST(CausesTest, a_hook_is_advised_only_to_ddp_without_one) {
  auto run = recorded_run(0, 0.03);
  set_bucket(run, 0, 0.02, 0.06, 0.015);
  set_bucket(run, 1, 0.06, 0.09, 0.015);
  EXPECT_THAT(causes_text(run), HasSubstr("communication hook"));
  run.recorded->has_hook = true;
  EXPECT_THAT(causes_text(run), AllOf(HasSubstr("GB/s"), Not(HasSubstr("hook"))));
  run.recorded->has_hook = false;
  run.recorded->collectives[0].element_bytes = 2;
  EXPECT_THAT(causes_text(run), Not(HasSubstr("hook")));
  run.recorded->collectives[0].element_bytes = 4;
  run.strategy = "fsdp";
  EXPECT_THAT(causes_text(run), AllOf(HasSubstr("GB/s"), Not(HasSubstr("hook"))));
}

TEST(CausesTest, advice_of_ddp_needs_ddp) {
  auto run = recorded_run(0, 0.02);
  run.strategy = "recorded";
  run.recorded->collectives = {{"all-reduce", "0", 8 << 20}};
  set_bucket(run, 0, 0.07, 0.09, 0.02);
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kAfterBackward));
  EXPECT_THAT(causes_text(run), AllOf(HasSubstr("1 all-reduce of 8.0 MiB takes 20.0"),
                                      HasSubstr("while backward goes on"), Not(HasSubstr("bucket_cap_mb"))));
}

TEST(CausesTest, one_large_bucket) {
  auto run = recorded_run(0, 0.02);
  run.recorded->collectives[1].bytes = 100 << 20;
  set_bucket(run, 0, 0.04, 0.041);
  set_bucket(run, 1, 0.07, 0.09, 0.02);
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kOneBucket));
}

TEST(CausesTest, a_last_bucket_that_nothing_hides) {
  auto run = recorded_run(0, 0.01);
  run.recorded->collectives.assign(3, {"all-reduce", "0", 2 << 20});
  set_bucket(run, 0, 0.04, 0.05);
  set_bucket(run, 1, 0.05, 0.06);
  set_bucket(run, 2, 0.08, 0.09, 0.01);
  const std::vector<Cause> causes = causes_of(run);
  ASSERT_EQ(causes.size(), 1);
  EXPECT_EQ(causes[0].kind, Kind::kOneBucket);
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
  EXPECT_THAT(
      causes[0].text,
      HasSubstr(
          "the device is idle for 48.3\u00a0ms of a step because the host is late with its 100 kernels"));
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

TEST(CausesTest, updates_that_a_scaler_skips_are_no_evaluation) {
  auto run = recorded_run();
  for (size_t i = 3; i < run.samples.size(); i += 10) run.samples[i][0] += 0.2;
  run.recorded->skipped_updates = 4;
  EXPECT_THAT(kinds_of(run), ElementsAre(Kind::kSkippedUpdates));
  EXPECT_THAT(causes_text(run),
              AllOf(HasSubstr("4 of 42 steps make no update"), Not(HasSubstr("evaluation"))));
}

TEST(CausesTest, ranks_that_never_communicate_are_said_to_train_apart) {
  auto run = recorded_run();
  run.strategy = "recorded";
  run.recorded->collectives.clear();
  run.breakdown->communication_s = 0;
  EXPECT_THAT(summary_of(run), AllOf(HasSubstr("nothing was communicated in the 8 steps"),
                                     HasSubstr("DistributedSampler"), Not(HasSubstr("hidden"))));
  // An unknown library may have communicated.
  run.strategy = "ddp";
  EXPECT_THAT(summary_of(run), AllOf(HasSubstr("are input"), Not(HasSubstr("communicat"))));
}

TEST(CausesTest, milliseconds_of_the_window_are_named_where_the_rate_has_others) {
  auto run = recorded_run(0.02, 0.001);
  EXPECT_THAT(summary_of(run),
              AllOf(HasSubstr("ms a step); 21 % of a step is"), Not(HasSubstr("profiler's window"))));
  run.recorded->window_cost = 1.5;
  EXPECT_THAT(summary_of(run), HasSubstr("21 % of a step of 100 ms in the profiler's window is exposed"));
  for (size_t i = 0; i < 4; ++i) run.samples[i][0] += 1;
  run.elapsed_s += 4;
  EXPECT_THAT(summary_of(run), HasSubstr("200 ms a step on average, median 100 ms"));
}

TEST(CausesTest, all_to_alls_beside_all_reduces_are_hybrid_parallel) {
  auto run = recorded_run(0.02, 0.001);
  EXPECT_THAT(summary_of(run), Not(HasSubstr("hybrid")));
  run.recorded->collectives[0].kind = "all-to-all";
  EXPECT_THAT(summary_of(run), HasSubstr("hybrid parallel"));
}

TEST(CausesTest, buckets_of_a_recording_have_no_bytes_that_are_not_known_and_last_no_longer_than_a_step) {
  RunRecord record;
  record.source = kRecordedSource;
  record.runs = {recorded_run(0, 0.02)};
  auto& run = record.runs.front();
  run.recorded->collectives = {{"all-reduce", "", 0}, {"all-reduce", "", 192}};
  set_bucket(run, 0, 0.04, 0.05);
  set_bucket(run, 1, 0.09, 0.3);
  const std::string text = to_text(buckets_tables(record));
  EXPECT_THAT(text, AllOf(testing::ContainsRegex(" 1 +- +10\\.0* +- +- +all-reduce"),
                          testing::ContainsRegex(" 2 +0\\.00018. +10\\.0* +- +- +all-reduce")));
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
