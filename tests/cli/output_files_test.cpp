#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"

#include "cli/program.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kOneRow{"lockstep",   "bench",   "--model",   "trivial", "--ranks",  "1",
                                       "--strategy", "single",  "--steps",   "3",       "--warmup", "1",
                                       "--launch",   "threads", "--backend", "thread"};

test::Finished bench_one_row(const std::vector<std::string>& flags) {
  std::vector<std::string> command = kOneRow;
  command.insert(command.end(), flags.begin(), flags.end());
  return test::run(command);
}

TEST(OutputFilesTest, no_command_writes_onto_its_input) {
  const test::ScratchFolder folder;
  const std::string file = folder.path("r.json");
  ASSERT_EQ(bench_one_row({"--json", file}).exit_code, 0);
  const std::string measured = read_file(file);
  const std::vector<std::vector<std::string>> commands{
      {"lockstep", "report", file, "-o", file},
      {"lockstep", "plot", file, "--chart", "throughput", "-o", folder.path("./r.json")},
      {"lockstep", "show", file, "--csv", file}};
  for (const std::vector<std::string>& command : commands) {
    const test::Finished refused = test::run(command);
    EXPECT_EQ(refused.exit_code, 2) << command[1];
    EXPECT_THAT(refused.error, HasSubstr("which would be lost")) << command[1];
    EXPECT_EQ(read_file(file), measured) << command[1];
  }
}

TEST(OutputFilesTest, two_outputs_are_two_files_and_each_has_a_name) {
  const test::ScratchFolder folder;
  const test::Finished same = bench_one_row({"--json", folder.path("x"), "--csv", folder.path("x")});
  EXPECT_EQ(same.exit_code, 2);
  EXPECT_THAT(same.error, HasSubstr("--json and --csv both write"));
  for (const char* flag : {"--json", "--csv", "--trace"}) {
    const test::Finished empty = bench_one_row({flag, ""});
    EXPECT_EQ(empty.exit_code, 2) << flag;
    EXPECT_THAT(empty.error, HasSubstr(flag));
    EXPECT_THAT(empty.error, HasSubstr("empty"));
  }
}

TEST(OutputFilesTest, a_full_standard_output_is_a_failure) {
  const test::ScratchFolder folder;
  const std::string file = folder.path("r.json");
  ASSERT_EQ(bench_one_row({"--json", file}).exit_code, 0);
  const std::string program = LOCKSTEP_PROGRAM;
  for (const std::string& command :
       {"show " + file, "report " + file + " -o -", std::string("info models")}) {
    const test::Finished full = test::run({"sh", "-c", program + " " + command + " > /dev/full"});
    EXPECT_EQ(full.exit_code, 1) << command;
    EXPECT_THAT(full.error, HasSubstr("standard output: No space left on device")) << command;
  }
}

TEST(OutputFilesTest, a_run_that_measures_nothing_keeps_the_older_result) {
  const test::ScratchFolder folder;
  const std::string file = folder.path("r.json");
  ASSERT_EQ(bench_one_row({"--json", file}).exit_code, 0);
  const std::string complete = read_file(file);
  // As a run leaves it that was killed in its second row.
  std::ofstream(file + ".partial") << complete;
  const test::Finished failed =
      test::run({"lockstep", "bench", "--model", "lenet5", "--ranks", "1", "--strategy", "single", "--steps",
                 "30", "--lr", "1e30", "--launch", "threads", "--backend", "thread", "--json", file});
  EXPECT_EQ(failed.exit_code, 1) << failed.error;
  EXPECT_THAT(failed.error, HasSubstr("nothing was measured yet"));
  EXPECT_THAT(failed.error, HasSubstr("r.json.partial.old"));
  EXPECT_THAT(failed.output, Not(HasSubstr("trivial")));
  EXPECT_EQ(read_file(file), complete);
  EXPECT_EQ(read_file(file + ".partial.old"), complete);
}

}  // namespace
}  // namespace lockstep
