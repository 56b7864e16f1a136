#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/launch/child_process.h"

#include "launch/program_run.h"

namespace lockstep::launch {
namespace {

using launch::testing::ProgramRun;
using launch::testing::rank_program;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// Waits until a file of the test is there and not empty; its first line.
std::string line_of(const std::filesystem::path& file) {
  std::string line;
  for (int look = 0; look < 100 && !std::getline(std::ifstream(file), line); ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return line;
}

bool goes_away(const std::filesystem::path& folder) {
  for (int look = 0; look < 50 && std::filesystem::exists(folder); ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return !std::filesystem::exists(folder);
}

class MpirunTest : public ::testing::Test {
 protected:
  /// lockstep's own parent, which starts mpirun.
  pid_t parent(int ranks, std::vector<std::string> arguments) {
    std::vector<std::string> command{rank_program(), "--mpirun", "--ranks", std::to_string(ranks)};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run_.start(command);
  }

  void TearDown() override { EXPECT_EQ(run_.survivors(), "") << run_.output(); }

  ProgramRun run_;
};

TEST_F(MpirunTest, a_parent_starts_ranks_through_it) {
  EXPECT_EQ(run_.wait(parent(3, {"--steps", "60"})), 0);
  EXPECT_EQ(run_.output(), "");
  EXPECT_NE(run_.pid_of_rank(2), 0);
}

TEST_F(MpirunTest, a_killed_rank_is_named_by_rank_0) {
  const pid_t started = parent(2, {});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(1), SIGKILL);
  EXPECT_EQ(run_.wait(started), kExitFailed);
  EXPECT_THAT(run_.output(),
              ContainsRegex("rank 0 says: rank 1 .* ended without a goodbye after step [0-9]+"));
  EXPECT_THAT(run_.output(), Not(HasSubstr("parent:")));
  EXPECT_THAT(run_.kept(0), HasSubstr("rank 1"));
}

TEST_F(MpirunTest, a_rank_alone_that_is_killed_is_named_by_the_parent) {
  const pid_t started = parent(1, {});
  run_.wait_for_ranks(1);
  ::kill(run_.pid_of_rank(0), SIGKILL);
  EXPECT_EQ(run_.wait(started), kExitFailed);
  EXPECT_THAT(run_.output(), HasSubstr("parent: rank 0 was killed by SIGKILL"));
}

TEST_F(MpirunTest, the_exit_code_of_a_rank_is_passed_on) {
  EXPECT_EQ(run_.wait(parent(3, {"--event", "exits-early", "--who", "2"})), 7);
}

TEST_F(MpirunTest, a_killed_mpirun_is_named_and_its_ranks_end) {
  const pid_t started = parent(2, {});
  run_.wait_for_ranks(2);
  ::kill(std::stoi(process_status(run_.pid_of_rank(0)).at(1)), SIGKILL);
  EXPECT_EQ(run_.wait(started), kExitFailed);
  EXPECT_THAT(run_.output(), HasSubstr("parent: mpirun was killed by SIGKILL"));
}

TEST_F(MpirunTest, a_rank_that_is_told_to_end_is_named_with_143) {
  const pid_t started = parent(2, {});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(1), SIGTERM);
  EXPECT_EQ(run_.wait(started), kExitTerminated);
  EXPECT_THAT(run_.output(), ContainsRegex("rank 0 says: rank 1 .* was told to end by SIGTERM after step "));
}

TEST_F(MpirunTest, ranks_keep_what_they_have_where_the_parent_is_killed) {
  const pid_t started = parent(2, {"--who", "0"});
  run_.wait_for_ranks(2);
  ::kill(started, SIGKILL);
  EXPECT_EQ(run_.wait(started), 128 + SIGKILL);
  EXPECT_EQ(run_.survivors(), "");
  EXPECT_THAT(run_.kept(0), HasSubstr("told to end by SIGTERM"));
  // mpirun passes it on, and outlives the ranks for a moment.
  for (int look = 0; look < 100 && run_.output().empty(); ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_THAT(run_.output(), HasSubstr("rank 0 says: "));
}

TEST_F(MpirunTest, a_parent_killed_while_mpirun_starts_leaves_no_files_of_open_mpi) {
  const std::filesystem::path mpirun = run_.folder() / "mpirun";
  const std::filesystem::path says = run_.folder() / "says";
  write_file_atomically(
      mpirun, fmt::format("#!/bin/sh\necho $OMPI_MCA_orte_tmpdir_base >{}\nexec sleep 60\n", says.string()));
  std::filesystem::permissions(mpirun, std::filesystem::perms::owner_all);
  const std::string path = fmt::format("{}:{}", run_.folder().string(), std::getenv("PATH"));
  const pid_t started = run_.start({rank_program(), "--mpirun", "--ranks", "2"}, {{"PATH", path}});
  const std::string folder = line_of(says);
  EXPECT_TRUE(std::filesystem::is_directory(folder)) << folder;
  ::kill(started, SIGKILL);
  EXPECT_EQ(run_.wait(started), 128 + SIGKILL);
  EXPECT_TRUE(goes_away(folder)) << folder;
}

TEST_F(MpirunTest, ranks_die_with_a_killed_parent_even_when_stopped_or_deaf) {
  const pid_t started = parent(2, {"--event", "deaf"});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(0), SIGSTOP);
  ::kill(started, SIGKILL);
  EXPECT_EQ(run_.wait(started), 128 + SIGKILL);
}

TEST_F(MpirunTest, ctrl_c_at_the_parent_ends_all) {
  const pid_t started = parent(2, {});
  run_.wait_for_ranks(2);
  ::kill(started, SIGINT);
  EXPECT_EQ(run_.wait(started), kExitInterrupted);
  EXPECT_NE(run_.kept(0), "");
}

TEST_F(MpirunTest, a_missing_mpirun_is_said_with_what_to_install) {
  const pid_t started = run_.start({rank_program(), "--mpirun", "--ranks", "2"}, {{"PATH", "/nowhere"}});
  EXPECT_EQ(run_.wait(started), kExitBackendMissing);
  EXPECT_THAT(run_.output(), HasSubstr("openmpi-bin"));
}

}  // namespace
}  // namespace lockstep::launch
