#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/results/files/record_json.h"
#include "lockstep/results/record/launches.h"

#include "cli/program.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// A short row of two ranks. With kSlowed, launches with --seed 2 have a delay in every step.
const std::vector<std::string> kRow{"--model", "lenet5", "--ranks", "2",  "--threads", "1",
                                    "--batch", "4",      "--steps", "12", "--warmup",  "3"};
const test::Program::Environment kSlowed{{"LD_PRELOAD", LOCKSTEP_SLOW_CLOCK},
                                         {"LOCKSTEP_SLOW_NS", "1000000"}};

std::vector<std::string> compare(const std::vector<std::string>& before,
                                 const std::vector<std::string>& behind) {
  std::vector<std::string> words{"lockstep", "compare"};
  words.insert(words.end(), before.begin(), before.end());
  words.insert(words.end(), kRow.begin(), kRow.end());
  words.emplace_back("--");
  words.insert(words.end(), behind.begin(), behind.end());
  return words;
}

TEST(CompareCommandTest, a_slower_configuration_is_found_kept_and_an_exit_code) {
  const test::ScratchFolder folder;
  const std::string keep = folder.path("turns");
  const test::Finished finished =
      test::run(compare({"--keep", keep, "--fail-on", "regression"}, {"--seed", "2"}), kSlowed);
  EXPECT_EQ(finished.exit_code, 3) << finished.error;
  EXPECT_THAT(finished.output, AllOf(HasSubstr("base: lockstep bench --model lenet5"),
                                     HasSubstr("--seed 2\n"), HasSubstr("Verdict: test is slower: 0."),
                                     ContainsRegex("Ended after [46] launches of each side")));
  EXPECT_THAT(finished.error,
              AllOf(HasSubstr("launch 1 of at most 128: base"), HasSubstr("launch 2 of at most 128: test"),
                    HasSubstr("launch 3 of at most 128: test"), HasSubstr("launch 4 of at most 128: base"),
                    HasSubstr("kept: lockstep diff " + keep + "/base.json")));
  const results::RunRecord base = results::read_record(keep + "/base.json");
  ASSERT_EQ(base.runs.size(), 1U);
  EXPECT_GE(results::launches(base.runs[0]), 4);
  // The first launch chose the kernels of both sides.
  const results::RunRecord other = results::read_record(keep + "/test.json");
  ASSERT_EQ(base.kernel_trials.size(), 1U);
  ASSERT_EQ(other.kernel_trials.size(), 1U);
  EXPECT_EQ(base.kernel_trials[0].fused_s, other.kernel_trials[0].fused_s);
  const test::Finished diff =
      test::run({"lockstep", "diff", keep + "/base.json", keep + "/test.json", "--paired", "--by", "p50"});
  EXPECT_EQ(diff.exit_code, 0) << diff.error;
  EXPECT_THAT(diff.output, HasSubstr("slower"));
  const test::Finished again = test::run(compare({"--keep", keep}, {}));
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.error, AllOf(HasSubstr("base.json"), HasSubstr("--force")));
}

TEST(CompareCommandTest, what_is_not_certain_by_the_end_is_said) {
  const test::Finished finished =
      test::run(compare({"--max-launches", "3", "--threshold", "0.01%", "--quiet"}, {}));
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.output, AllOf(HasSubstr("Compared for: nothing"),
                                     HasSubstr("Ended after 3 launches of each"), HasSubstr("pair")));
  EXPECT_EQ(finished.error, "");
}

TEST(CompareCommandTest, what_no_launch_can_decide_ends_with_the_reason) {
  const test::Finished blind = test::run(compare({"--by", "p99"}, {}));
  EXPECT_EQ(blind.exit_code, 1) << blind.output;
  EXPECT_THAT(blind.error, AllOf(ContainsRegex("p99 needs 100 steps a launch, not [0-9]+"),
                                 HasSubstr("no pair of launches was compared")));
  const test::Finished single = test::run(compare({"--max-time", "0.001", "--fail-on", "regression"}, {}));
  EXPECT_EQ(single.exit_code, 2) << single.error;
  EXPECT_THAT(single.error, HasSubstr("--fail-on regression needs two launches of each side"));
}

TEST(CompareCommandTest, a_dry_run_says_what_would_be_compared) {
  const test::Finished finished =
      test::run(compare({"--dry-run", "--max-launches", "8"}, {"--bind", "none"}));
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.output,
              AllOf(HasSubstr("test: lockstep bench"), HasSubstr("--bind none"),
                    HasSubstr("Rows: lenet5 ddp at 2 ranks"), HasSubstr("looks after 4, 6, 8 launches")));
}

TEST(CompareCommandTest, the_test_has_its_own_flags_in_place_of_those_of_the_base) {
  const test::Finished replaced = test::run(compare({"--dry-run", "--seed=3"}, {"--seed", "4"}));
  EXPECT_EQ(replaced.exit_code, 0) << replaced.error;
  EXPECT_THAT(replaced.output, ContainsRegex("test: [^\n]*--warmup 3 --seed 4\n"));
  const test::Finished more = test::run(compare({"--dry-run"}, {"--batch", "4,8"}));
  EXPECT_EQ(more.exit_code, 0) << more.error;
  EXPECT_THAT(more.error, HasSubstr("warning: 1 row is only in test"));
}

TEST(CompareCommandTest, is_refused_where_a_launcher_started_it) {
  const test::Finished started = test::run({"lockstep", "compare", "--model", "lenet5", "--ranks", "1", "--"},
                                           {{"RANK", "0"},
                                            {"WORLD_SIZE", "1"},
                                            {"LOCAL_RANK", "0"},
                                            {"LOCAL_WORLD_SIZE", "1"},
                                            {"MASTER_ADDR", "127.0.0.1"},
                                            {"MASTER_PORT", "1"},
                                            {"TORCHELASTIC_RUN_ID", "none"}});
  EXPECT_EQ(started.exit_code, 2) << started.error;
  EXPECT_THAT(started.error, HasSubstr("compare starts every launch itself"));
}

TEST(CompareCommandTest, a_launch_that_fails_ends_it_with_what_it_printed) {
  // Batches that nobody sends.
  const test::Finished finished =
      test::run({"lockstep", "compare", "--model", "lenet5", "--ranks", "1", "--batch", "4", "--timeout", "1",
                 "--", "--input", "zmq", "--address", "ipc:///tmp/lockstep-compare-test-nobody"});
  EXPECT_EQ(finished.exit_code, 1) << finished.output;
  EXPECT_THAT(finished.error,
              AllOf(HasSubstr("launch 2 (test) ended with exit code 1"), HasSubstr("It was: lockstep")));
  EXPECT_THAT(finished.output, Not(HasSubstr("Verdict")));
}

TEST(CompareCommandTest, a_signal_ends_the_launch_and_shows_the_pairs_so_far) {
  test::Program program(compare({"--threshold", "0.01%"}, {}));
  ASSERT_TRUE(program.wait_for_error("launch 4 of at most 128")) << program.error();
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(), 143) << program.error();
  EXPECT_TRUE(program.nothing_left_behind());
  EXPECT_THAT(program.output(), HasSubstr("by a signal"));
}

TEST(CompareCommandTest, a_kept_folder_that_is_removed_ends_nothing) {
  const test::ScratchFolder folder;
  const std::string keep = folder.path("turns");
  test::Program program(
      compare({"--threshold", "0.01%", "--max-launches", "3", "--keep", keep}, {"--bucket-mb", "1"}));
  ASSERT_TRUE(program.wait_for_error("launch 2 of at most 6")) << program.error();
  EXPECT_TRUE(std::filesystem::exists(keep + "/base.json")) << "kept after every launch";
  // A launch may write meanwhile.
  std::error_code error;
  while (std::filesystem::exists(keep)) std::filesystem::remove_all(keep, error);
  EXPECT_EQ(program.wait(), 1) << program.error();
  EXPECT_THAT(program.output(), AllOf(HasSubstr("Ended after 3 launches of each"), HasSubstr("Verdict")));
  EXPECT_THAT(program.error(), AllOf(HasSubstr("nothing is kept: cannot write '" + keep),
                                     Not(HasSubstr("kept: lockstep diff"))));
}

TEST(CompareCommandTest, a_kill_leaves_no_folder_but_what_is_kept) {
  const test::ScratchFolder folder;
  for (const char* name : {"tmp", "turns"}) std::filesystem::create_directory(folder.path(name));
  test::Program program(compare({"--keep", folder.path("turns")}, {"--bucket-mb", "1"}),
                        {{"TMPDIR", folder.path("tmp")}});
  ASSERT_TRUE(program.wait_for_error("launch 2 of")) << program.error();
  program.signal(SIGKILL);
  program.wait();
  EXPECT_TRUE(program.poll_until(60, [&] { return std::filesystem::is_empty(folder.path("tmp")); }));
  EXPECT_EQ(results::launches(results::read_record(folder.path("turns/base.json")).runs[0]), 1);
}

}  // namespace
}  // namespace lockstep
