#include <csignal>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "lockstep/results/files/record_json.h"
#include "lockstep/results/record/launches.h"

#include "cli/program.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> bench_command(const std::vector<std::string>& more) {
  std::vector<std::string> command{"lockstep", "bench", "--model",   "lenet5",
                                   "--batch",  "4",     "--threads", "1"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

TEST(ExplainTest, steps_and_warm_up_are_found_where_they_are_not_told) {
  const test::ScratchFolder folder;
  const test::Finished finished = test::run(bench_command(
      {"--ranks", "1,2", "--max-time", "3", "--precision-target", "10%", "--json", folder.path("a.json")}));
  ASSERT_EQ(finished.exit_code, 0) << finished.error;
  const results::RunRecord record = results::read_record(folder.path("a.json"));
  ASSERT_EQ(record.runs.size(), 4u);
  for (const results::Run& run : record.runs) {
    EXPECT_GE(run.warmup_steps, 3) << run.strategy;
    EXPECT_GE(run.samples.size(), 30u) << run.strategy;
    EXPECT_FALSE(run.warmup_choice.empty());
    EXPECT_FALSE(run.stopped.empty());
    ASSERT_TRUE(run.step_interval_s && run.rate_interval && run.resources);
    ASSERT_EQ(run.resources->peak_memory_bytes.size(), static_cast<size_t>(run.ranks));
    EXPECT_GT(run.resources->peak_memory_bytes[0], 30 << 20);
    EXPECT_GT(*run.resources->processor_utilisation, 0.05);
  }
}

TEST(ExplainTest, a_breakdown_sums_to_its_step_and_explains_the_efficiency) {
  const test::ScratchFolder folder;
  const test::Finished finished =
      test::run(bench_command({"--ranks", "2", "--steps", "20", "--warmup", "3", "--breakdown", "--json",
                               folder.path("a.json"), "--trace", folder.path("trace.json")}));
  ASSERT_EQ(finished.exit_code, 0) << finished.error;
  const results::RunRecord record = results::read_record(folder.path("a.json"));
  const results::Run& ddp = record.runs.at(1);
  ASSERT_EQ(ddp.strategy, "ddp");
  ASSERT_TRUE(ddp.breakdown);
  const measure::PhaseTimes& mean = ddp.breakdown->mean;
  EXPECT_NEAR(
      mean.input_s + mean.forward_s + mean.backward_s + mean.exposed_s() + mean.optimizer_s + mean.other_s,
      mean.step_s, 0.01 * mean.step_s);
  EXPECT_LT(mean.other_s, 0.2 * mean.step_s);
  EXPECT_FALSE(ddp.breakdown->ranks.at(1).buckets.empty());
  ASSERT_TRUE(ddp.factors && ddp.efficiency);
  const results::EfficiencyFactors& factors = *ddp.factors;
  EXPECT_NEAR(factors.machine * factors.strategy * factors.transfer * factors.stragglers, *ddp.efficiency,
              1e-9);

  std::ifstream file(folder.path("trace.json"));
  const auto trace = nlohmann::json::parse(file);
  size_t steps = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["name"].get<std::string>().starts_with("step ")) ++steps;
  }
  // Three rows: one rank, and twice two ranks.
  EXPECT_EQ(steps, 5u * 20u);
}

TEST(ExplainTest, repeated_launches_stand_in_one_record_and_one_table) {
  const test::ScratchFolder folder;
  const test::Finished finished = test::run(
      bench_command({"--ranks", "2", "--steps", "20", "--warmup", "3", "--repeat", "3", "--no-controls",
                     "--json", folder.path("a.json"), "--csv", folder.path("a.csv")}));
  ASSERT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_EQ(folder.files(), 2u);
  const results::RunRecord record = results::read_record(folder.path("a.json"));
  ASSERT_EQ(record.runs.size(), 1u);
  EXPECT_THAT(record.runs[0].launch_steps, ElementsAre(20, 20, 20));
  EXPECT_EQ(record.runs[0].samples.size(), 60u);
  EXPECT_EQ(record.launches_started_at.size(), 3u);
  EXPECT_EQ(finished.output.find("Benchmark: lenet5"), finished.output.rfind("Benchmark: lenet5"));
  EXPECT_THAT(finished.error, HasSubstr("launch 3 of 3"));
}

TEST(ExplainTest, a_launch_can_be_added_to_a_file) {
  const test::ScratchFolder folder;
  const std::vector<std::string> command =
      bench_command({"--ranks", "1", "--steps", "20", "--warmup", "3", "--launch", "threads", "--json",
                     folder.path("a.json"), "--append"});
  for (int launch = 0; launch < 2; ++launch) ASSERT_EQ(test::run(command).exit_code, 0);
  const results::RunRecord record = results::read_record(folder.path("a.json"));
  EXPECT_EQ(results::launches(record.runs.at(0)), 2);
  EXPECT_EQ(folder.files(), 1u);
}

TEST(ExplainTest, without_a_file_repeated_launches_leave_nothing) {
  const test::ScratchFolder folder;
  const test::Finished finished =
      test::run(bench_command({"--ranks", "1", "--steps", "20", "--warmup", "3", "--repeat", "2",
                               "--no-controls", "--strategy", "ddp"}),
                {{"TMPDIR", folder.path("")}});
  ASSERT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.output, HasSubstr("Benchmark: lenet5"));
  EXPECT_EQ(folder.files(), 0u);
}

TEST(ExplainTest, ctrl_c_in_a_later_launch_keeps_the_earlier_ones) {
  const test::ScratchFolder folder;
  test::Program program(bench_command({"--ranks", "2", "--max-time", "4", "--precision-target", "0.0001",
                                       "--repeat", "9", "--no-controls", "--json", folder.path("a.json")}));
  ASSERT_TRUE(program.wait_for_error("launch 2 of 9")) << program.error();
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(), 130);
  EXPECT_TRUE(program.nothing_left_behind());
  const results::RunRecord record = results::read_record(folder.path("a.json"));
  EXPECT_THAT(record.incomplete, HasSubstr("interrupted"));
  EXPECT_EQ(results::launches(record.runs.at(0)), 1);
}

TEST(ExplainTest, strong_scaling_shares_one_batch_and_any_row_is_a_baseline) {
  const test::ScratchFolder folder;
  const test::Finished finished = test::run({"lockstep", "bench", "--model", "lenet5", "--global-batch", "8",
                                             "--ranks", "1,2", "--steps", "20", "--warmup", "3", "--threads",
                                             "1", "--baseline", "ddp:1", "--json", folder.path("a.json")});
  ASSERT_EQ(finished.exit_code, 0) << finished.error;
  const results::RunRecord record = results::read_record(folder.path("a.json"));
  for (const results::Run& run : record.runs) EXPECT_EQ(run.batch_per_rank * run.ranks, 8) << run.strategy;
  const results::Run& two = record.runs.at(2);
  ASSERT_TRUE(two.baseline);
  EXPECT_EQ(two.baseline->strategy, "ddp");
  EXPECT_DOUBLE_EQ(*two.speedup, two.images_per_s / record.runs.at(1).images_per_s);
  EXPECT_THAT(finished.output, HasSubstr("global batch size 8"));
}

}  // namespace
}  // namespace lockstep
