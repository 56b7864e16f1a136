#include "lockstep/predict/jobs/job_profile.h"

#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

#include "predict/jobs/sample_job.h"

namespace lockstep::predict {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::string refusal_of(const results::RunRecord& record, const ProfileChoice& choice = {}) {
  try {
    read_profiles(record, "a.json", choice);
  } catch (const ConfigError& error) {
    return error.what() + (" | " + error.advice());
  }
  return "accepted";
}

TEST(JobProfileTest, phases_and_buckets_are_those_of_the_breakdown) {
  const auto profiles = read_profiles(sample_record(), "a.json", {});
  ASSERT_THAT(profiles, SizeIs(1));
  const JobProfile& profile = profiles.front();
  EXPECT_EQ(profile.strategy, "ddp");
  EXPECT_EQ(profile.placement.ranks, 2);
  EXPECT_NEAR(profile.alone_s, 0.1, 1e-3);
  EXPECT_NEAR(profile.computing_s() + profile.update_s + profile.other_s, 0.11, 1e-3);
  ASSERT_THAT(profile.buckets, SizeIs(3));
  EXPECT_EQ(profile.buckets[2].bytes, 3 << 20);
  // Of the second the time since its last rank was there, not since it was ready.
  ASSERT_THAT(profile.points, SizeIs(3));
  EXPECT_EQ(profile.points[1].ranks, 2);
  EXPECT_NEAR(profile.points[1].time_s, 0.12 / 32, 1e-9);
  // All took as long, whatever their bytes: what delayed the small one would delay every small one.
  EXPECT_NEAR(profile.points[0].time_s + profile.points[2].time_s, 0.12 / 16, 1e-9);
  EXPECT_NEAR(profile.points[2].time_s, 3 * profile.points[0].time_s, 1e-4);
  // Two ranks on the host compute 5 % slower.
  EXPECT_NEAR(value_at(profile.sharing, 2), 1.05, 0.01);
  EXPECT_NEAR(value_at(profile.sharing, 4), 1.15, 0.02);
}

TEST(JobProfileTest, collectives_at_the_same_time_share_it_by_their_bytes) {
  for (const bool fills_cores : {false, true}) {
    results::RunRecord record = sample_record();
    results::Run& run = record.runs[1];
    for (auto& rank : run.breakdown->ranks)
      // The second begins in a lane of its own while the first moves, and both end together.
      rank.buckets = {
          {.bytes = 20 << 20, .ready_s = 0.1, .started_s = 0.1, .all_arrived_s = 0.1, .ended_s = 0.9},
          {.bytes = 10 << 20, .ready_s = 0.2, .started_s = 0.2, .all_arrived_s = 0.2, .ended_s = 1.0}};
    const OwnCosts own = own_costs(run, *strategy_shape("replicated", ""), fills_cores);
    ASSERT_THAT(own.points, SizeIs(2));
    // Ascending sizes. Without the lanes the first would take eight times as long as the second.
    EXPECT_NEAR(own.points[1].time_s / own.points[0].time_s, 2, 0.05) << fills_cores;
    EXPECT_NEAR(own.points[0].time_s, 0.3, fills_cores ? 0.1 : 0.01);
  }
}

TEST(JobProfileTest, known_values_are_joined_and_continued) {
  const std::vector<KnownValue> known{{1, 1}, {2, 1.5}, {4, 1.5}};
  EXPECT_DOUBLE_EQ(value_at(known, 1.5), 1.25);
  EXPECT_DOUBLE_EQ(value_at(known, 8), 1.5);
  EXPECT_DOUBLE_EQ(value_at(known, 0.5), 0.75);
  EXPECT_DOUBLE_EQ(value_at({{1, 7}}, 100), 7);
  EXPECT_DOUBLE_EQ(value_at({{1, 7}, {1, 9}}, 1), 9);
  EXPECT_DOUBLE_EQ(time_of_batch({{16, 2}}, 8), 1.1);
  EXPECT_DOUBLE_EQ(time_of_batch({{8, 1.5}, {16, 2}}, 12), 1.75);
  EXPECT_DOUBLE_EQ(time_of_batch({{8, 1}, {16, 3}}, 1), 0.1);
}

TEST(JobProfileTest, buckets_are_cut_at_other_sizes_where_their_bytes_were_ready) {
  const std::vector<GradientBucket> buckets{{.bytes = 10, .ready_s = 2}, {.bytes = 20, .ready_s = 6}};
  const auto halves = cut_again(buckets, 1, {.bytes = 15});
  ASSERT_THAT(halves, SizeIs(2));
  EXPECT_DOUBLE_EQ(halves[0].bytes, 15);
  EXPECT_DOUBLE_EQ(halves[0].ready_s, 3);
  EXPECT_DOUBLE_EQ(halves[1].ready_s, 6);
  const auto one = cut_again(buckets, 1, {.bytes = 100});
  ASSERT_THAT(one, SizeIs(1));
  EXPECT_DOUBLE_EQ(one[0].bytes, 30);
  EXPECT_DOUBLE_EQ(one[0].ready_s, 6);
  const auto fives = cut_again(buckets, 1, {.bytes = 5});
  ASSERT_THAT(fives, SizeIs(6));
  EXPECT_DOUBLE_EQ(fives[0].ready_s, 1.5);
  EXPECT_DOUBLE_EQ(fives[3].ready_s, 4);
}

TEST(JobProfileTest, a_bucket_that_one_tensor_closed_is_cut_before_it_at_most) {
  // AlexNet's under ddp: three layers of one tensor each, then the convolutions.
  constexpr double kMB = 1e6;
  std::vector<GradientBucket> buckets{{.bytes = 16.4 * kMB, .ready_s = 2},
                                      {.bytes = 67.1 * kMB, .ready_s = 3},
                                      {.bytes = 151 * kMB, .ready_s = 4},
                                      {.bytes = 9.9 * kMB, .ready_s = 5}};
  find_tails(buckets, bucket_caps("ddp", 25, 1), 151 * kMB);
  const auto sizes = [&](const char* strategy, double cap_mb) {
    std::vector<double> bytes;
    for (const GradientBucket& bucket : cut_again(buckets, 1, bucket_caps(strategy, cap_mb, 1)))
      bytes.push_back(bucket.bytes / kMB);
    return bytes;
  };
  using testing::DoubleNear;
  const auto near = [](double bytes) { return DoubleNear(bytes, 0.1); };
  EXPECT_THAT(sizes("ddp", 25), ElementsAre(near(16.4), near(67.1), near(151), near(9.9)));
  // Tensors before that of the second bucket are not known.
  EXPECT_THAT(sizes("ddp", 10),
              ElementsAre(near(16.4), near(10.5), near(10.5), near(46.1), near(151), near(9.9)));
  EXPECT_THAT(sizes("ddp", 100), ElementsAre(near(16.4), near(218.1), near(9.9)));
  // Flat memory is cut anywhere, but no piece of a tensor is final before the tensor.
  const auto flat = cut_again(buckets, 1, bucket_caps("replicated", 25, 1));
  ASSERT_THAT(flat, SizeIs(10));
  EXPECT_LT(flat[0].ready_s, 3);
  for (size_t k : {4, 5, 6, 7}) EXPECT_DOUBLE_EQ(flat[k].ready_s, 4);
}

TEST(JobProfileTest, one_rank_alone_gives_buckets_as_planned) {
  results::RunRecord record = sample_record();
  record.runs.resize(1);
  record.runs[0].breakdown = results::breakdown_of(1, 0.1, 0, 0);
  record.runs[0].breakdown->ranks[0].buckets.clear();
  const JobProfile profile = read_profiles(record, "a.json", {}).front();
  EXPECT_EQ(profile.strategy, "ddp");
  // 25.6 million values: 1 MiB, then buckets of 25 MiB.
  EXPECT_THAT(profile.buckets, SizeIs(5));
  EXPECT_THAT(profile.points, SizeIs(0));
}

TEST(JobProfileTest, unknown_hosts_are_asked_for) {
  results::RunRecord record = sample_record();
  record.runs[1].hosts = 0;
  try {
    read_profiles(record, "a.json", {});
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("does not say on how many hosts its 2 ranks ran"));
    EXPECT_THAT(error.advice(), HasSubstr("--per-host"));
  }
}

TEST(JobProfileTest, what_is_missing_is_said_with_its_command) {
  results::RunRecord record = sample_record();
  EXPECT_THAT(refusal_of(record, {.strategy = "sharded"}),
              AllOf(HasSubstr("no breakdown of resnet50 under sharded"), HasSubstr("--breakdown")));
  EXPECT_THAT(refusal_of(record, {.model = "vgg16"}), HasSubstr("no breakdown of vgg16"));
  results::Run other = record.runs[1];
  other.model = "alexnet";
  record.runs.push_back(other);
  EXPECT_THAT(refusal_of(record),
              AllOf(HasSubstr("several networks: alexnet, resnet50"), HasSubstr("--model")));
  EXPECT_EQ(refusal_of(record, {.model = "alexnet"}), "accepted");
  record.runs.back().model = "resnet50";
  record.runs.back().batch_per_rank = 16;
  EXPECT_THAT(refusal_of(record),
              AllOf(HasSubstr("several batches per rank: 8, 16"), HasSubstr("--batch 8")));
  EXPECT_EQ(refusal_of(record, {.batch = 16}), "accepted");
  // One rank alone with another batch tells how its time depends on that.
  record.runs.back().strategy = results::kSingle;
  record.runs.front().breakdown = record.runs.back().breakdown;
  EXPECT_EQ(refusal_of(record), "accepted");
  record.runs.pop_back();
  record.runs[1].images_per_s = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(refusal_of(record), HasSubstr("no step time that is a number above 0"));
  for (results::Run& run : record.runs) run.breakdown.reset();
  EXPECT_THAT(refusal_of(record),
              AllOf(HasSubstr("'a.json' has no breakdown of resnet50"),
                    HasSubstr("lockstep bench --model resnet50 --ranks 1,2 --breakdown")));
}

/// A row under strong scaling.
results::Run strong_run(const std::string& strategy, int ranks, double step_s) {
  results::Run run = results::measured_run(strategy, ranks, 40, step_s);
  run.global_batch = 16;
  run.batch_per_rank = 16 / ranks;
  run.images_per_s = 16 / step_s;
  run.breakdown = results::breakdown_of(ranks, step_s, 0, 0);
  return run;
}

TEST(JobProfileTest, a_job_of_one_batch_is_predicted_from_the_part_of_its_most_ranks) {
  results::RunRecord record;
  record.runs = {strong_run("single", 1, 0.2), strong_run("ddp", 1, 0.21), strong_run("ddp", 2, 0.12),
                 strong_run("independent", 2, 0.105), strong_run("independent", 4, 0.05)};
  const JobProfile profile = read_profiles(record, "a.json", {}).front();
  EXPECT_EQ(profile.batch, 8);
  EXPECT_THAT(profile.notes, SizeIs(0));
  EXPECT_THAT(profile.measured, SizeIs(1));
  // Half of the batch in a tenth and nine tenths of a half; perfect scaling halves the time.
  EXPECT_NEAR(profile.alone_s, 0.11, 1e-9);
  EXPECT_NEAR(profile.ideal_s, 0.1, 1e-9);
  // The four ranks had another batch.
  ASSERT_THAT(profile.sharing, SizeIs(2));
  EXPECT_NEAR(profile.sharing[1].value, 0.105 / 0.11, 1e-9);
  CollectiveTable table(profile.backend);
  table.set_network(parse_network("10gbit,20us"), false);
  const JobModel model(profile, table);
  const JobPrediction two = model.predict({.placement = {2, 2}, .global_batch = 16});
  EXPECT_TRUE(two.measured_s);
  EXPECT_NEAR(two.efficiency, 0.2 / (2 * 0.12), 0.01);
  EXPECT_NEAR(two.factors.batch, 0.1 / 0.11, 1e-9);
}

TEST(JobProfileTest, of_rows_with_as_many_ranks_the_fastest_counts) {
  for (const double step_s : {0.11, 0.15}) {
    results::RunRecord record = sample_record();
    record.runs.push_back(results::measured_run("ddp", 2, 40, step_s));
    record.runs.back().hosts = 2;
    record.runs.back().breakdown = results::breakdown_of(2, step_s, 0, 0.01);
    const JobProfile profile = read_profiles(record, "a.json", {}).front();
    ASSERT_THAT(profile.measured, SizeIs(1));
    EXPECT_NEAR(profile.measured[0].step_s, std::min(step_s, 0.12), 1e-3);
    EXPECT_EQ(profile.placement.hosts(), step_s < 0.12 ? 2 : 1);
    CollectiveTable table(profile.backend);
    for (const CollectivePoint& point : profile.points) table.add(point);
    EXPECT_NO_THROW(JobModel(profile, table).predict({.placement = {8, 2}}));
  }
}

/// Two ranks on two cores: 0.1 s of forward, 0.2 s of backward that becomes 0.24 s, because a collective of
/// 0.08 s runs beside it and lets ranks compute half as fast.
results::RunRecord overlapped_record() {
  results::RunRecord record;
  record.machines = {{.cores = 2}};
  for (const int ranks : {2, 1}) {
    const double step_s = ranks == 2 ? 0.34 : 0.3;
    results::Run& run = record.runs.emplace_back(results::measured_run("ddp", ranks, 40, step_s));
    run.breakdown = results::breakdown_of(ranks, step_s, 0, 0);
    run.breakdown->mean = {.forward_s = 0.1, .backward_s = step_s - 0.1, .step_s = step_s};
    run.breakdown->communication_s = ranks == 2 ? 0.08 : 0;
    for (results::RankBreakdown& rank : run.breakdown->ranks)
      rank.buckets = {{.bytes = 8 << 20, .ready_s = 0.15, .all_arrived_s = 0.15, .ended_s = 0.23}};
  }
  return record;
}

TEST(JobProfileTest, what_communication_adds_to_backward_is_what_the_model_adds) {
  results::RunRecord record = overlapped_record();
  // Whether one rank tells it, or the usual loss is taken.
  for (size_t rows : {2, 1}) {
    record.runs.resize(rows);
    record.runs.push_back(results::measured_run("single", 1, 40, 0.3));
    record.runs.push_back(results::measured_run("independent", 2, 40, 0.3));
    const JobProfile profile = read_profiles(record, "a.json", {}).front();
    // 80 ms less the two turns of the processor that its rounds wait for.
    EXPECT_NEAR(profile.loss.compute, rows == 2 ? 1.07 : 1, 0.02);
    EXPECT_NEAR(profile.backward_s, 0.2, 2e-3);
    const std::vector<QueuedCollective> queue{{0.15, profile.points[0].time_s, 2 * profile.turn_s}};
    const OverlapEnd end = overlap(queue, profile.computing_s(), profile.loss);
    EXPECT_NEAR(end.computed_s, 0.34, 3e-3);
    EXPECT_NEAR(end.communicated_s(), 0.23, 3e-3);
  }
}

TEST(JobProfileTest, a_thread_that_keeps_its_core_is_not_slowed_by_communication) {
  results::RunRecord record = overlapped_record();
  for (results::Run& run : record.runs) {
    run.threads_per_rank = 1;
    // Two ranks take 40 ms longer; for 4 of them they have no core.
    for (results::RankBreakdown& rank : run.breakdown->ranks) {
      rank.mean = run.breakdown->mean;
      rank.processor.backward_s = rank.mean.backward_s - (run.ranks == 2 ? 0.004 : 0);
    }
  }
  const JobProfile profile = read_profiles(record, "a.json", {}).front();
  EXPECT_NEAR(profile.loss.compute, 4.0 / 75, 0.01);
}

TEST(JobProfileTest, a_link_slower_than_the_cores_slows_what_computes_as_little_as_it_needs_of_them) {
  results::RunRecord record = overlapped_record();
  record.runs.resize(1);
  record.runs.push_back(results::measured_run("independent", 2, 40, 0.3));
  // A tenth of the 80 ms is the processor time of what moves the bytes.
  record.runs[0].threads_per_rank = 1;
  record.runs[0].resources = results::Resources{.communication_threads = 0.008 / 0.34};
  const JobProfile profile = read_profiles(record, "a.json", {}).front();
  EXPECT_NEAR(profile.loss.network, 0.05, 0.01);
  EXPECT_NEAR(profile.loss.compute, 0.1 / 0.9, 0.01);
}

TEST(JobProfileTest, turns_of_the_processor_are_told_from_bytes_where_ranks_fill_the_cores) {
  // Two rounds of 2 ms each and 4 MiB in 4 ms; while ranks compute 1.6 times as long.
  results::RunRecord record = overlapped_record();
  const double late_s = 0.004, cost_s = 0.004 + 2 * kAssumedRound_s;
  for (results::RankBreakdown& rank : record.runs[0].breakdown->ranks) {
    rank.buckets.clear();
    double free_s = 0;
    for (const double begin_s : {0.15, 0.2, 0.25, 0.34}) {
      for (const double times : {1, 8}) {
        const double ready_s = begin_s + (times > 1 ? 0.01 : 0);
        const double work_s = times * 0.004 + 2 * kAssumedRound_s;
        rank.buckets.push_back({.bytes = static_cast<int64_t>(times) << 22,
                                .ready_s = ready_s,
                                .started_s = std::max(ready_s, free_s),
                                .all_arrived_s = ready_s,
                                .ended_s = ready_s + (begin_s < 0.34 ? late_s + 1.6 * work_s : work_s)});
        free_s = rank.buckets.back().ended_s;
        if (begin_s >= 0.34) break;
      }
    }
  }
  record.runs[0].breakdown->communication_s = 0.2;
  const JobProfile profile = read_profiles(record, "a.json", {}).front();
  EXPECT_NEAR(profile.points.front().time_s, cost_s, 0.1 * cost_s);
  EXPECT_NEAR(2 * profile.turn_s, late_s, 0.2 * late_s);
  EXPECT_NEAR(profile.loss.network, 0.6, 0.1);
  // More and more buckets take more and more turns.
  CollectiveTable table(profile.backend);
  for (const CollectivePoint& point : profile.points) table.add(point);
  const JobModel model(profile, table);
  const auto rate = [&](double bucket_mb, int per_host) {
    return model.images_per_s({.placement = {2, per_host}, .bucket_mb = bucket_mb});
  };
  EXPECT_LT(rate(0.25, 2), 0.9 * rate(8, 2));
  EXPECT_GT(rate(0.25, 1), 0.99 * rate(8, 1)) << "a core that is free has no turns";
}

TEST(JobProfileTest, a_rank_alone_is_as_fast_as_between_its_measurements_before_and_after_the_others) {
  results::RunRecord record = overlapped_record();
  record.runs.push_back(results::measured_run("single", 1, 40, 0.3));
  record.runs.back().again = results::Again{.ratio = 0.64};
  EXPECT_NEAR(read_profiles(record, "a.json", {}).front().alone_s, 0.3 / 0.8, 2e-3);
}

TEST(JobProfileTest, without_a_rank_alone_the_base_is_a_step_that_nothing_lengthens) {
  results::RunRecord record = overlapped_record();
  record.runs.resize(1);
  const JobProfile profile = read_profiles(record, "a.json", {}).front();
  EXPECT_THAT(profile.notes, SizeIs(1));
  EXPECT_NEAR(profile.alone_s, 0.3, 2e-3);
  EXPECT_NEAR(value_at(profile.sharing, 2), 1, 1e-9);
  CollectiveTable table(profile.backend);
  for (const CollectivePoint& point : profile.points) table.add(point);
  const JobModel model(profile, table);
  EXPECT_NEAR(model.efficiency({.placement = {1, 1}}), 1, 0.01);
  EXPECT_NEAR(model.efficiency({.placement = {2, 2}}), 0.3 / 0.34, 0.01);
}

TEST(JobProfileTest, a_host_s_noise_is_what_its_ranks_have_in_common) {
  results::RunRecord record = sample_record();
  auto& ranks = record.runs[1].breakdown->ranks;
  const auto set_steps = [&](size_t rank, const std::vector<double>& step_s) {
    ranks[rank].series = {};
    ranks[rank].series.step_s = step_s;
  };
  const std::vector<double> noisy{1.0, 1.2, 0.9, 1.0, 1.1, 0.8, 1.0, 1.0};
  set_steps(0, noisy);
  set_steps(1, noisy);
  StepNoise noise = read_profiles(record, "a.json", {}).front().noise;
  EXPECT_NEAR(noise.rank.quantile(0.9), 0, 1e-9);
  EXPECT_GT(noise.host.quantile(0.9), 0.05);
  set_steps(1, {1.0, 0.9, 1.2, 1.0, 1.0, 1.0, 0.8, 1.1});
  noise = read_profiles(record, "a.json", {}).front().noise;
  EXPECT_GT(noise.rank.quantile(0.9), 0.05);
}

}  // namespace
}  // namespace lockstep::predict
