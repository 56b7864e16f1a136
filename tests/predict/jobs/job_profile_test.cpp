#include "lockstep/predict/jobs/job_profile.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

#include "predict/jobs/sample_job.h"

namespace lockstep::predict {
namespace {

using testing::AllOf;
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

TEST(JobProfileTest, known_values_are_joined_and_continued) {
  const std::vector<KnownValue> known{{1, 1}, {2, 1.5}, {4, 1.5}};
  EXPECT_DOUBLE_EQ(value_at(known, 1.5), 1.25);
  EXPECT_DOUBLE_EQ(value_at(known, 8), 1.5);
  EXPECT_DOUBLE_EQ(value_at(known, 0.5), 0.75);
  EXPECT_DOUBLE_EQ(value_at({{1, 7}}, 100), 7);
}

TEST(JobProfileTest, buckets_are_cut_at_other_sizes_where_their_bytes_were_ready) {
  const std::vector<GradientBucket> buckets{{.bytes = 10, .ready_s = 2}, {.bytes = 20, .ready_s = 6}};
  const auto halves = cut_again(buckets, 1, 15);
  ASSERT_THAT(halves, SizeIs(2));
  EXPECT_DOUBLE_EQ(halves[0].bytes, 15);
  EXPECT_DOUBLE_EQ(halves[0].ready_s, 3);
  EXPECT_DOUBLE_EQ(halves[1].ready_s, 6);
  const auto one = cut_again(buckets, 1, 100);
  ASSERT_THAT(one, SizeIs(1));
  EXPECT_DOUBLE_EQ(one[0].bytes, 30);
  EXPECT_DOUBLE_EQ(one[0].ready_s, 6);
  const auto fives = cut_again(buckets, 1, 5);
  ASSERT_THAT(fives, SizeIs(6));
  EXPECT_DOUBLE_EQ(fives[0].ready_s, 1.5);
  EXPECT_DOUBLE_EQ(fives[3].ready_s, 4);
}

TEST(JobProfileTest, one_rank_alone_gives_equal_buckets) {
  results::RunRecord record = sample_record();
  record.runs.resize(1);
  record.runs[0].breakdown = results::breakdown_of(1, 0.1, 0, 0);
  record.runs[0].breakdown->ranks[0].buckets.clear();
  const JobProfile profile = read_profiles(record, "a.json", {}).front();
  EXPECT_EQ(profile.strategy, "ddp");
  // 25.6 million values in buckets of 25 MiB.
  EXPECT_THAT(profile.buckets, SizeIs(4));
  EXPECT_THAT(profile.points, SizeIs(0));
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
  record.runs.pop_back();
  record.runs[1].images_per_s = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(refusal_of(record), HasSubstr("no step time that is a number above 0"));
  for (results::Run& run : record.runs) run.breakdown.reset();
  EXPECT_THAT(refusal_of(record),
              AllOf(HasSubstr("'a.json' has no breakdown of resnet50"),
                    HasSubstr("lockstep bench --model resnet50 --ranks 1,2 --breakdown")));
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
