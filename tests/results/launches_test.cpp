#include "lockstep/results/record/launches.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/results/record/baseline.h"

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RunRecord launch(double ddp_step_s, int steps = 24) {
  RunRecord record = described_record();
  record.runs = {measured_run("single", 1, steps, 0.5), measured_run("ddp", 2, steps, ddp_step_s),
                 measured_run("independent", 2, steps, 0.51)};
  assign_baselines(record);
  return record;
}

TEST(LaunchesTest, samples_of_launches_stand_one_after_the_other) {
  RunRecord record = launch(0.5);
  add_launch(record, launch(0.625, 20));
  const results::Run& ddp = record.runs[1];
  ASSERT_EQ(record.runs.size(), 3U);
  EXPECT_EQ(ddp.samples.size(), 44U);
  EXPECT_THAT(ddp.launch_steps, ElementsAre(24, 20));
  EXPECT_THAT(ddp.launch_warmup_steps, ElementsAre(2, 2));
  EXPECT_EQ(launches(ddp), 2);
  EXPECT_EQ(record.launches_started_at.size(), 2U);
  const auto by_launch = representative_steps_by_launch(ddp);
  ASSERT_EQ(by_launch.size(), 2U);
  EXPECT_EQ(by_launch[0], representative_steps(launch(0.5).runs[1]));
  EXPECT_EQ(by_launch[1], representative_steps(launch(0.625, 20).runs[1]));
}

TEST(LaunchesTest, every_launch_counts_alike_whatever_its_steps) {
  RunRecord record = launch(0.5);
  const RunRecord other = launch(0.625, 20);
  const results::Run before = record.runs[1];
  const double time_s = before.elapsed_s + other.runs[1].elapsed_s;
  add_launch(record, other);
  EXPECT_DOUBLE_EQ(record.runs[1].images_per_s, std::sqrt(before.images_per_s * other.runs[1].images_per_s));
  EXPECT_DOUBLE_EQ(*record.runs[1].step_s.p50, std::sqrt(*before.step_s.p50 * *other.runs[1].step_s.p50));
  EXPECT_DOUBLE_EQ(record.runs[1].elapsed_s, time_s);
  add_launch(record, launch(0.625, 40));
  EXPECT_NEAR(record.runs[1].images_per_s,
              std::cbrt(before.images_per_s * std::pow(other.runs[1].images_per_s, 2)), 0.02);
  EXPECT_DOUBLE_EQ(*record.runs[1].speedup, record.runs[1].images_per_s / record.runs[0].images_per_s);
}

TEST(LaunchesTest, recorded_steps_are_another_row_and_another_gpu_another_record) {
  RunRecord record = gpu_record();
  RunRecord eager = gpu_record();
  for (results::Run& run : eager.runs) run.cuda_graph = false;
  add_launch(record, eager);
  EXPECT_EQ(record.runs.size(), 8U);
  RunRecord other_gpu = gpu_record();
  other_gpu.rank_gpus[0].name = "NVIDIA A100";
  EXPECT_THROW(add_launch(record, other_gpu), ConfigError);
  RunRecord other_cudnn = gpu_record();
  other_cudnn.cudnn_version = "9.1.0";
  EXPECT_THROW(add_launch(record, other_cudnn), ConfigError);
}

TEST(LaunchesTest, what_gpus_did_is_told_of_the_last_launch) {
  RunRecord record = gpu_record();
  RunRecord later = gpu_record();
  later.runs[2].gpu_use[0].samples = 99;
  add_launch(record, later);
  ASSERT_EQ(record.runs[2].gpu_use.size(), 2U);
  EXPECT_EQ(record.runs[2].gpu_use[0].samples, 99);
}

TEST(LaunchesTest, a_baseline_that_drifted_in_one_launch_drifted) {
  const auto with_again = [](double step_s) {
    RunRecord record = launch(0.5);
    assign_again(record.runs[0], std::vector<double>(24, step_s));
    return record;
  };
  for (const auto& [first_s, second_s] : {std::pair{0.5, 0.4}, {0.4, 0.5}}) {
    RunRecord record = with_again(first_s);
    add_launch(record, with_again(second_s));
    EXPECT_NEAR(record.runs[0].again->ratio, 1.25, 0.02) << first_s;
  }
}

TEST(LaunchesTest, launches_that_differ_widen_the_interval_beyond_their_steps) {
  RunRecord record = launch(0.5);
  const Interval within = *record.runs[1].step_interval_s;
  ASSERT_EQ(within.missing, "");
  for (const double step_s : {0.505, 0.495}) {
    add_launch(record, launch(step_s));
    EXPECT_EQ(record.runs[1].step_interval_s->missing, "fewer than 4 launches");
    EXPECT_EQ(record.runs[1].rate_interval->missing, "fewer than 4 launches");
  }
  add_launch(record, launch(0.502));
  const Interval over = *record.runs[1].step_interval_s;
  ASSERT_EQ(over.missing, "");
  EXPECT_GT(over.high - over.low, 3 * (within.high - within.low));
  const Interval rate = *record.runs[1].rate_interval;
  EXPECT_LT(rate.low, record.runs[1].images_per_s);
  EXPECT_GT(rate.high, record.runs[1].images_per_s);
}

TEST(LaunchesTest, warm_up_that_was_not_over_leaves_no_interval) {
  RunRecord record = launch(0.5);
  results::Run& ddp = record.runs[1];
  ASSERT_EQ(ddp.rate_interval->missing, "");
  ddp.unsettled = "warm-up not over";
  assign_intervals(ddp);
  EXPECT_EQ(ddp.rate_interval->missing, "not settled: warm-up not over");
  EXPECT_EQ(ddp.step_interval_s->missing, "not settled: warm-up not over");
  EXPECT_EQ(from_json(to_json(record), "a.json").runs[1].unsettled, "warm-up not over");
  for (int more = 0; more < 4; ++more) add_launch(record, launch(0.5));
  EXPECT_EQ(record.runs[1].rate_interval->missing, "not settled: warm-up not over");
}

TEST(LaunchesTest, rates_of_launches_follow_from_their_samples) {
  RunRecord record = launch(0.5);
  const double coupled = record.runs[1].images_per_s;
  const double uncoupled = record.runs[2].images_per_s;
  add_launch(record, launch(0.625, 20));
  ASSERT_EQ(launch_rates(record.runs[1]).size(), 2U);
  EXPECT_NEAR(launch_rates(record.runs[1])[0], coupled, 0.01 * coupled);
  EXPECT_NEAR(launch_rates(record.runs[1])[1], 0.8 * coupled, 0.01 * coupled);
  EXPECT_NEAR(launch_rates(record.runs[2])[0], uncoupled, 0.01 * uncoupled);
}

TEST(LaunchesTest, a_row_that_the_first_launch_lacks_is_added) {
  RunRecord record = launch(0.5);
  RunRecord other = launch(0.5);
  other.runs.push_back(measured_run("ddp", 4, 24, 0.6));
  other.runs[1].bucket_mb = 1;
  add_launch(record, other);
  ASSERT_EQ(record.runs.size(), 5U);
  EXPECT_EQ(launches(record.runs[0]), 2);
  EXPECT_EQ(launches(record.runs[1]), 1);
  EXPECT_EQ(record.runs[3].bucket_mb, 1);
  EXPECT_TRUE(record.runs[4].speedup);
}

TEST(LaunchesTest, a_row_with_other_kernels_is_another_row) {
  RunRecord record = launch(0.5);
  record.kernels = {"fused"};
  RunRecord other = launch(0.5);
  other.kernels = {"aten"};
  other.kernel_detail.clear();
  other.runs[1].kernels = "aten";
  add_launch(record, other);
  EXPECT_EQ(record.runs.size(), 4U);
  EXPECT_THAT(record.kernels, ElementsAre("fused", "aten"));
  EXPECT_EQ(record.kernel_detail, launch(0.5).kernel_detail);
}

TEST(LaunchesTest, a_row_that_was_fed_in_another_way_is_another_row) {
  RunRecord record = launch(0.5);
  RunRecord other = launch(0.5);
  other.runs[1].input_options = "--prefetch 2";
  add_launch(record, other);
  EXPECT_EQ(record.runs.size(), 4U);
  other = launch(0.5);
  other.runs[1].data = "data/digits";
  add_launch(record, other);
  EXPECT_EQ(record.runs.size(), 5U);
}

TEST(LaunchesTest, a_launch_of_another_machine_or_library_is_refused) {
  RunRecord record = launch(0.5);
  RunRecord other = launch(0.5);
  other.torch_version = "2.12.0";
  try {
    add_launch(record, other);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'2.11.0' there, '2.12.0' now"));
  }
  other = launch(0.5);
  other.machines[0].processor = "Another";
  EXPECT_THROW(add_launch(record, other), ConfigError);
  other = launch(0.5);
  other.kernel_detail = "oneDNN 3.2.0, avx2";
  EXPECT_THROW(add_launch(record, other), ConfigError);
}

TEST(LaunchesTest, launches_survive_a_file) {
  RunRecord record = launch(0.5);
  add_launch(record, launch(0.51));
  const RunRecord back = from_json(to_json(record), "a.json");
  EXPECT_EQ(to_json(back), to_json(record));
  EXPECT_THAT(back.runs[1].launch_steps, ElementsAre(24, 24));
  EXPECT_EQ(back.launches_started_at.size(), 2U);
}

}  // namespace
}  // namespace lockstep::results
