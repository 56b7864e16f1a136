#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lockstep/results/files/record_json.h"

#include "cli/program.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kQuick{"--model", "lenet5",   "--batch", "4",         "--steps",
                                      "20",      "--warmup", "2",       "--threads", "1"};

std::vector<std::string> quick_bench(std::vector<std::string> before, const std::vector<std::string>& more) {
  before.insert(before.end(), {"lockstep", "bench"});
  before.insert(before.end(), kQuick.begin(), kQuick.end());
  before.insert(before.end(), more.begin(), more.end());
  if (before.front() != "lockstep") *std::find(before.begin(), before.end(), "lockstep") = LOCKSTEP_PROGRAM;
  return before;
}

void expect_tables_once(const std::string& output) {
  EXPECT_EQ(test::occurrences(output, "Benchmark: lenet5"), 1u) << output;
  EXPECT_EQ(test::occurrences(output, "1M/2R"), 1u) << output;
  EXPECT_THAT(output, HasSubstr("efficiency"));
}

class BackendTest : public testing::TestWithParam<const char*> {};

TEST_P(BackendTest, one_and_two_ranks_are_measured_and_recorded) {
  const test::ScratchFolder folder;
  const test::Finished bench =
      test::run(quick_bench({}, {"--backend", GetParam(), "--ranks", "1,2", "--json", folder.path("a.json"),
                                 "--csv", folder.path("a.csv")}));
  ASSERT_EQ(bench.exit_code, 0) << bench.error;
  expect_tables_once(bench.output);
  EXPECT_EQ(folder.files(), 2u) << "something else was left beside the two files";

  const results::RunRecord record = results::read_record(folder.path("a.json"));
  ASSERT_EQ(record.runs.size(), 4u);
  EXPECT_TRUE(record.incomplete.empty());
  ASSERT_TRUE(record.runs[0].again) << "the baseline is measured first and last";
  EXPECT_EQ(record.runs[0].again->samples.size(), 20U);
  EXPECT_THAT(bench.output, HasSubstr(" after the last row"));
  const results::Run& two = record.runs[2];
  EXPECT_EQ(two.strategy, "ddp");
  EXPECT_EQ(two.ranks, 2);
  EXPECT_EQ(two.backend, GetParam());
  ASSERT_EQ(two.samples.size(), 20u);
  EXPECT_EQ(two.samples[0].size(), 2u);
  EXPECT_GT(two.images_per_s, 0);
  ASSERT_TRUE(two.efficiency && two.speedup && two.baseline);
  EXPECT_EQ(two.baseline->strategy, "single");
  EXPECT_DOUBLE_EQ(*two.speedup, two.images_per_s / two.baseline->images_per_s);
  EXPECT_DOUBLE_EQ(*two.efficiency, *two.speedup / 2);
}

INSTANTIATE_TEST_SUITE_P(all, BackendTest, testing::Values("thread", "gloo", "mpi"));

TEST(BenchTest, the_same_seed_gives_the_same_losses_over_every_backend) {
  const test::ScratchFolder folder;
  std::vector<results::Run> runs;
  for (const std::string backend : {"thread", "gloo", "mpi"}) {
    const std::string path = folder.path(backend + ".json");
    ASSERT_EQ(
        test::run(quick_bench({}, {"--backend", backend, "--ranks", "2", "--no-controls", "--json", path}))
            .exit_code,
        0);
    runs.push_back(results::read_record(path).runs.at(0));
  }
  // Two ranks: a sum of two has one order, so not even rounding may differ.
  for (const results::Run& run : runs) {
    EXPECT_EQ(run.loss_first, runs[0].loss_first);
    EXPECT_EQ(run.loss_last, runs[0].loss_last);
  }
}

TEST(BenchTest, the_ranks_of_mpirun_print_one_table) {
  const test::Finished bench =
      test::run(quick_bench({"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"},
                            {"--backend", "mpi", "--ranks", "1,2"}));
  EXPECT_EQ(bench.exit_code, 0) << bench.error;
  expect_tables_once(bench.output);
}

TEST(BenchTest, the_ranks_of_mpirun_can_speak_gloo) {
  const test::Finished bench =
      test::run(quick_bench({"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"},
                            {"--backend", "gloo", "--ranks", "1,2"}));
  EXPECT_EQ(bench.exit_code, 0) << bench.error;
  expect_tables_once(bench.output);
}

TEST(BenchTest, ranks_started_by_hand_with_torchruns_variables_meet) {
  test::Program::Environment environment{{"WORLD_SIZE", "2"},
                                         {"LOCAL_WORLD_SIZE", "2"},
                                         {"MASTER_ADDR", "127.0.0.1"},
                                         {"MASTER_PORT", std::to_string(20000 + ::getpid() % 10000)}};
  environment["RANK"] = environment["LOCAL_RANK"] = "1";
  test::Program second(quick_bench({}, {"--ranks", "1,2"}), environment);
  environment["RANK"] = environment["LOCAL_RANK"] = "0";
  const test::Finished first = test::run(quick_bench({}, {"--ranks", "1,2"}), environment);
  EXPECT_EQ(first.exit_code, 0) << first.error;
  expect_tables_once(first.output);
  EXPECT_EQ(second.wait(), 0) << second.error();
  EXPECT_EQ(second.output(), "");
}

TEST(BenchTest, results_go_to_stdout_and_progress_to_stderr) {
  const test::Finished bench = test::run(quick_bench({}, {"--backend", "thread", "--ranks", "1"}));
  EXPECT_THAT(bench.error, HasSubstr("[1/2] lenet5 single 1 rank"));
  EXPECT_THAT(bench.output, Not(HasSubstr("[1/2]")));
  EXPECT_THAT(bench.error, Not(HasSubstr("\x1b["))) << "colours although it is no terminal";
  const test::Finished quiet = test::run(quick_bench({}, {"--backend", "thread", "--ranks", "1", "--quiet"}));
  EXPECT_EQ(quiet.error, "");
}

/// mpirun binds each rank to a core of its own, so no rank sees all that they have together.
TEST(BenchTest, ranks_that_mpirun_bound_to_cores_have_them_together) {
  if (std::thread::hardware_concurrency() < 2) return;
  const test::ScratchFolder folder;
  const test::Finished bench =
      test::run(quick_bench({"mpirun", "--allow-run-as-root", "--bind-to", "core", "-np", "2"},
                            {"--ranks", "2", "--no-controls", "--json", folder.path("a.json")}));
  ASSERT_EQ(bench.exit_code, 0) << bench.error;
  EXPECT_THAT(bench.output, Not(HasSubstr("usable core")));
  const results::RunRecord record = results::read_record(folder.path("a.json"));
  ASSERT_EQ(record.machines.size(), 1U);
  EXPECT_EQ(record.machines.front().cores, 2);
  ASSERT_EQ(record.rank_cpus.size(), 2U);
  EXPECT_NE(record.rank_cpus[0], record.rank_cpus[1]);
  for (const std::string& cpus : record.rank_cpus) EXPECT_FALSE(cpus.empty());
}

TEST(BenchTest, a_dry_run_prints_the_plan_and_measures_nothing) {
  const test::ScratchFolder folder;
  const test::Finished bench =
      test::run(quick_bench({}, {"--ranks", "1,2", "--dry-run", "--json", folder.path("a.json")}));
  EXPECT_EQ(bench.exit_code, 0) << bench.error;
  EXPECT_THAT(bench.output, HasSubstr("lenet5 independent 2 ranks x 4"));
  EXPECT_THAT(bench.output, HasSubstr("memory/rank"));
  EXPECT_THAT(bench.output,
              testing::ContainsRegex("about [0-9.]+ m?s in all, judging by some steps of each network and "
                                     "by this machine's sockets, which took [0-9.]+ m?s\n"));
  EXPECT_EQ(folder.files(), 0u);
}

TEST(BenchTest, bf16_and_bucket_sizes_sweep) {
  const test::ScratchFolder folder;
  const test::Finished bench =
      test::run(quick_bench({}, {"--backend", "thread", "--ranks", "2", "--precision", "fp32,bf16",
                                 "--bucket-mb", "0.05,25", "--json", folder.path("a.json")}));
  ASSERT_EQ(bench.exit_code, 0) << bench.error;
  // Per precision: single, ddp with two bucket sizes, independent.
  EXPECT_EQ(results::read_record(folder.path("a.json")).runs.size(), 8u);
}

TEST(BenchTest, kernels_sweep_and_the_record_says_whose_they_are) {
  const test::ScratchFolder folder;
  const test::Finished bench = test::run(quick_bench({}, {"--backend", "thread", "--ranks", "1", "--kernels",
                                                          "aten,fused", "--json", folder.path("a.json")}));
  ASSERT_EQ(bench.exit_code, 0) << bench.error;
  EXPECT_THAT(bench.output, HasSubstr("* Kernels: aten, fused (oneDNN 3."));
  const results::RunRecord record = results::read_record(folder.path("a.json"));
  EXPECT_THAT(record.kernel_detail, testing::StartsWith("oneDNN 3."));
  std::vector<std::string> found;
  for (const results::Run& run : record.runs) found.push_back(run.strategy + " " + run.kernels);
  EXPECT_THAT(found, testing::ElementsAre("single aten", "ddp aten", "single fused", "ddp fused"));
}

TEST(BenchTest, kernels_are_chosen_once_for_all_rows_ranks_and_launches) {
  const test::ScratchFolder folder;
  const test::Finished bench =
      test::run(quick_bench({}, {"--backend", "gloo", "--ranks", "2", "--repeat", "2", "--precision",
                                 "fp32,bf16", "--json", folder.path("a.json")}));
  ASSERT_EQ(bench.exit_code, 0) << bench.error;
  EXPECT_THAT(bench.output, testing::ContainsRegex(
                                "\\* Choice of kernels: lenet5, fp32, batch 4: (aten|fused), chosen over "));
  const results::RunRecord record = results::read_record(folder.path("a.json"));
  ASSERT_EQ(record.kernel_trials.size(), 2u);
  // Per precision: single, ddp, independent, in both launches.
  ASSERT_EQ(record.runs.size(), 6u);
  for (const results::Run& run : record.runs) {
    EXPECT_EQ(run.kernels, record.kernel_trials[run.precision == "bf16"].kernels);
    EXPECT_EQ(run.launch_steps.size(), 2u);
  }
}

TEST(BenchTest, buckets_are_tuned_and_the_row_is_measured_with_what_was_found) {
  const test::ScratchFolder folder;
  const test::Finished bench = test::run({"lockstep",
                                          "bench",
                                          "--model",
                                          "resnet18",
                                          "--image-size",
                                          "32",
                                          "--batch",
                                          "2",
                                          "--steps",
                                          "3",
                                          "--warmup",
                                          "1",
                                          "--threads",
                                          "1",
                                          "--ranks",
                                          "2",
                                          "--strategy",
                                          "replicated",
                                          "--tune",
                                          "buckets",
                                          "--tune-budget",
                                          "3",
                                          "--breakdown",
                                          "--json",
                                          folder.path("a.json")});
  ASSERT_EQ(bench.exit_code, 0) << bench.error;
  EXPECT_THAT(bench.output, HasSubstr("Tuned: resnet18 replicated at 2 ranks: --bucket-mb "));
  EXPECT_THAT(bench.output, HasSubstr("Memory per rank: resnet18"));
  for (const results::Run& run : results::read_record(folder.path("a.json")).runs) {
    ASSERT_TRUE(run.memory) << run.strategy;
    EXPECT_GE(run.memory->total.least, 3 * 4 * run.parameters) << run.strategy;
    ASSERT_EQ(run.tuning.has_value(), run.strategy == "replicated") << run.strategy;
    if (!run.tuning) continue;
    EXPECT_EQ(run.tuning->budget_s, 3);
    EXPECT_EQ(run.bucket_mb, run.tuning->chosen_mb);
    EXPECT_NE(run.tuning->reason, "");
  }
}

TEST(BenchTest, replicas_are_compared_while_they_train_and_the_record_says_so) {
  const test::ScratchFolder folder;
  const test::Finished bench =
      test::run(quick_bench({}, {"--ranks", "1,2", "--strategy", "ddp,parameter_server", "--verify-every",
                                 "5", "--json", folder.path("a.json")}));
  ASSERT_EQ(bench.exit_code, 0) << bench.error;
  EXPECT_THAT(bench.output, HasSubstr("Replicas: compared bit for bit every 5 steps, and equal: lenet5 ddp"));
  size_t compared = 0;
  for (const results::Run& run : results::read_record(folder.path("a.json")).runs) {
    ASSERT_TRUE(run.replica_checks) << run.strategy;
    EXPECT_EQ(run.replica_checks->every, 5);
    // Ranks that go their own ways go on until the last is done.
    EXPECT_TRUE(run.coupled ? run.samples.size() == 20 : run.samples.size() >= 20) << run.samples.size();
    const bool applies = run.ranks == 2 && run.strategy != "independent";
    // 22 steps with warm-up: after 5, 10, 15, 20 and the last.
    EXPECT_EQ(run.replica_checks->checks, applies ? 5 : 0) << run.strategy;
    EXPECT_EQ(run.replica_checks->not_applicable.empty(), applies) << run.strategy;
    compared += applies ? 1 : 0;
  }
  EXPECT_EQ(compared, 2u);
}

TEST(BenchTest, rows_that_were_disturbed_are_measured_again) {
  const test::ScratchFolder folder;
  const auto measured = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command{"lockstep", "bench", "--model",   LOCKSTEP_RESTLESS_NETWORK ":restless",
                                     "--ranks",  "2",     "--threads", "1",
                                     "--batch",  "2",     "--warmup",  "1",
                                     "--steps",  "20",    "--json",    folder.path("a.json")};
    command.insert(command.end(), more.begin(), more.end());
    const test::Finished bench = test::run(command);
    EXPECT_EQ(bench.exit_code, 0) << bench.error;
    return bench;
  };
  // One rank alone seems to take twenty times as long as two together.
  const test::Finished again = measured({});
  EXPECT_THAT(again.error, testing::HasSubstr("measuring 3 rows again: a part was disturbed"));
  const results::RunRecord record = results::read_record(folder.path("a.json"));
  ASSERT_EQ(record.runs.size(), 3u);
  EXPECT_LT(record.runs[1].efficiency.value_or(99), 3) << "of the second measurement";
  EXPECT_TRUE(record.runs[0].again);
  // The time of all rows was used up.
  const test::Finished once = measured({"--max-time", "1.2", "--no-controls", "--strategy", "single,ddp"});
  EXPECT_THAT(once.error, testing::Not(testing::HasSubstr("again")));
}

TEST(BenchTest, more_ranks_than_cores_run_with_a_loud_warning) {
  const auto ranks = std::to_string(2 * ::sysconf(_SC_NPROCESSORS_ONLN) + 1);
  const test::Finished bench = test::run(quick_bench({}, {"--ranks", ranks, "--no-controls"}));
  EXPECT_EQ(bench.exit_code, 0) << bench.error;
  EXPECT_THAT(bench.output + bench.error, HasSubstr("WARNING"));
}

}  // namespace
}  // namespace lockstep
