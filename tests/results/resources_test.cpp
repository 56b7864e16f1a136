#include "lockstep/results/record/resources.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using topology::RankUse;

/// A rank with a core of its own on a host of four, all of it busy for 8 of 10 seconds.
RankUse rank_use(int64_t host, int64_t process) {
  return {.wall_s = 10,
          .cpu_s = 8,
          .communication_cpu_s = 0.5,
          .peak_memory_bytes = 1000 * process,
          .page_faults = 10 * process,
          .peak_device_memory_bytes = 0,
          .host_busy_s = 16,
          .host_stolen_s = 0,
          .host_hardware_threads = 4,
          .host_swapped_out_bytes = 0,
          .frequency_at_begin_mhz = 3000,
          .frequency_at_end_mhz = 3000,
          .process = process,
          .host = host};
}

TEST(ResourcesTest, use_is_a_share_of_the_cores_that_the_ranks_had) {
  const Resources found = resources_of({rank_use(1, 1), rank_use(1, 2)}, 1);
  EXPECT_DOUBLE_EQ(*found.processor_utilisation, 0.8);
  EXPECT_DOUBLE_EQ(*found.communication_threads, 0.05);
  EXPECT_DOUBLE_EQ(*found.other_load, 0);
  EXPECT_DOUBLE_EQ(*found.mean_frequency_mhz, 3000);
  EXPECT_THAT(found.peak_memory_bytes, ElementsAre(1000, 2000));
  EXPECT_THAT(found.page_faults, ElementsAre(10, 20));
  EXPECT_TRUE(found.peak_device_memory_bytes.empty());
}

TEST(ResourcesTest, memory_of_gpus_is_that_of_ranks_that_have_one) {
  std::vector<RankUse> use{rank_use(1, 1), rank_use(1, 2)};
  use[0].peak_device_memory_bytes = 5000;
  use[1].peak_device_memory_bytes = 6000;
  EXPECT_THAT(resources_of(use, 1).peak_device_memory_bytes, ElementsAre(5000, 6000));
}

TEST(ResourcesTest, threads_of_one_process_are_counted_once) {
  const Resources found = resources_of({rank_use(1, 1), rank_use(1, 1)}, 1);
  EXPECT_DOUBLE_EQ(*found.processor_utilisation, 0.4);
  EXPECT_DOUBLE_EQ(*found.other_load, 8.0 / 40);
}

TEST(ResourcesTest, other_load_is_what_the_host_did_beyond_this_job) {
  std::vector<RankUse> use{rank_use(1, 1), rank_use(1, 2), rank_use(2, 1), rank_use(2, 2)};
  EXPECT_TRUE(resource_warnings(use).empty());
  for (size_t rank : {2, 3}) use[rank].host_busy_s = 24;
  EXPECT_DOUBLE_EQ(*resources_of(use, 1).other_load, 0.1);
  const std::vector<Warning> warnings = resource_warnings(use);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0].text, HasSubstr("Other programs used 20 %"));
}

TEST(ResourcesTest, what_spoils_a_measurement_is_named_with_advice) {
  std::vector<RankUse> use{rank_use(1, 1), rank_use(1, 2)};
  use[0].host_stolen_s = use[1].host_stolen_s = 2;
  use[1].frequency_at_end_mhz = 2400;
  use[0].host_swapped_out_bytes = use[1].host_swapped_out_bytes = int64_t{1} << 30;
  const std::vector<Warning> warnings = resource_warnings(use);
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_THAT(warnings[0].text, HasSubstr("hypervisor gave 5 %"));
  EXPECT_THAT(warnings[1].text, HasSubstr("1.0 GiB were swapped out"));
  EXPECT_TRUE(warnings[1].loud);
  EXPECT_FALSE(warnings[0].loud || warnings[2].loud);
  EXPECT_THAT(warnings[2].text, HasSubstr("20 % lower"));
  for (const Warning& warning : warnings) EXPECT_FALSE(warning.advice.empty());

  // Just below and above what is worth a word.
  std::vector<RankUse> little{rank_use(1, 1)};
  little[0].host_busy_s = little[0].cpu_s;
  little[0].host_stolen_s = 0.019 * 40;
  little[0].frequency_at_end_mhz = 0.951 * 3000;
  little[0].host_swapped_out_bytes = 16 << 20;
  EXPECT_EQ(resource_warnings(little).size(), 0U);
  little[0].host_stolen_s = 0.021 * 40;
  little[0].frequency_at_end_mhz = 0.949 * 3000;
  little[0].host_swapped_out_bytes = (16 << 20) + 1;
  EXPECT_EQ(resource_warnings(little).size(), 3U);
}

TEST(ResourcesTest, a_run_whose_steps_did_not_stay_the_same_says_so) {
  results::Run run = measured_run("ddp", 2, 100, 0.5);
  EXPECT_TRUE(series_warnings(run).empty());
  for (size_t step = 60; step < 100; ++step) {
    for (double& sample : run.samples[step]) sample *= 1.5;
  }
  const std::vector<Warning> warnings = series_warnings(run);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0].text, HasSubstr("level shift at step 60"));
}

TEST(ResourcesTest, only_outliers_that_are_slow_are_worth_a_warning) {
  for (const auto& [times, warned] : {std::pair(0.7, false), {1.15, false}, {3.0, true}}) {
    results::Run run = measured_run("ddp", 2, 100, 0.5);
    for (size_t step = 5; step < 100; step += 10) {
      for (double& sample : run.samples[step]) sample *= times;
    }
    const std::vector<Warning> warnings = series_warnings(run);
    EXPECT_EQ(warnings.size(), warned ? 1u : 0u) << times;
    if (!warned) continue;
    EXPECT_THAT(warnings.at(0).text, HasSubstr("the slowest 3.0 times the median"));
  }
}

TEST(ResourcesTest, ranks_that_train_alone_at_different_speeds_are_named) {
  results::Run run = measured_run("independent", 3, 40, 0.008);
  EXPECT_THAT(rank_warnings(run), IsEmpty());
  for (std::vector<double>& ranks : run.samples) ranks[2] *= 1.55;
  const std::vector<Warning> warnings = rank_warnings(run);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0].text, AllOf(HasSubstr("rank 2 took 12.4 ms"), HasSubstr("8.0 ms")));
  EXPECT_FALSE(warnings[0].advice.empty());
  EXPECT_FALSE(warnings[0].loud);
  // The first step of a run that ended early has all ranks, its last may not.
  results::Run ended = run;
  ended.samples.back().resize(1);
  EXPECT_EQ(rank_warnings(ended).size(), 1U);
  // Ranks that wait for each other differ by what each computes, and that is a factor of its own.
  run.strategy = "ddp";
  EXPECT_THAT(rank_warnings(run), IsEmpty());
}

TEST(ResourcesTest, a_breakdown_of_other_steps_than_the_throughputs_is_said) {
  const results::Run run = measured_run("ddp", 2, 100, 0.5);
  const auto steps = [](double step_s, double noise) {
    std::mt19937 random(1);
    std::vector<double> all;
    for (int i = 0; i < 20; ++i) {
      // Between -1 and 1, in no order.
      const double off = 2.0 * static_cast<double>(random() % 1000) / 999 - 1;
      all.push_back(step_s * (1 + noise * off));
    }
    return all;
  };
  EXPECT_THAT(breakdown_warnings(run, steps(0.51, 0.01)), IsEmpty()) << "no more than 5 % off";
  EXPECT_THAT(breakdown_warnings(run, steps(0.54, 0.8)), IsEmpty()) << "within the noise";
  for (const double step_s : {0.6, 0.4}) {
    const std::vector<Warning> warnings = breakdown_warnings(run, steps(step_s, 0.001));
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_THAT(warnings[0].text, HasSubstr(step_s > 0.5 ? "(+20 %)" : "(-20 %)"));
  }
  // Five steps have no interval.
  EXPECT_THAT(breakdown_warnings(run, std::vector<double>(5, 0.58)), IsEmpty());
  EXPECT_EQ(breakdown_warnings(run, std::vector<double>(5, 0.62)).size(), 1U);
}

}  // namespace
}  // namespace lockstep::results
