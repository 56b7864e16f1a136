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

bool becomes_zombie(pid_t pid) {
  const auto is_zombie = [&] { return process_status(pid).at(0) == "Z"; };
  for (int look = 0; look < 150 && !is_zombie(); ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return is_zombie();
}

class MpirunTest : public ::testing::Test {
 protected:
  /// lockstep's own parent, which starts mpirun.
  pid_t parent(int ranks, std::vector<std::string> arguments) {
    std::vector<std::string> command{rank_program(), "--mpirun", "--ranks", std::to_string(ranks)};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run_.start(command, {{"LOCKSTEP_PLUGIN_PATH", LAUNCH_PLUGINS}});
  }

  void TearDown() override { EXPECT_EQ(run_.survivors(), "") << run_.output(); }

  ProgramRun run_;
};

TEST_F(MpirunTest, a_parent_starts_ranks_through_it) {
  EXPECT_EQ(run_.wait(parent(3, {"--steps", "60"})), 0);
  EXPECT_EQ(run_.output(), "");
  EXPECT_NE(run_.pid_of_rank(2), 0);
}

TEST_F(MpirunTest, a_rank_killed_under_a_parent_is_named) {
  const pid_t started = parent(2, {});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(1), SIGKILL);
  EXPECT_EQ(run_.wait(started), kExitFailed);
  EXPECT_THAT(run_.output(),
              ContainsRegex("parent: rank 1 .* was killed by SIGKILL after step [0-9]+ of resnet50"));
  EXPECT_THAT(run_.kept(0), HasSubstr("rank 1"));
}

TEST_F(MpirunTest, a_killed_rank_is_named_where_mpirun_sees_the_end_of_another_first) {
  const pid_t started = parent(2, {});
  run_.wait_for_ranks(2);
  const pid_t mpirun = std::stoi(process_status(run_.pid_of_rank(0)).at(1));
  ::kill(mpirun, SIGSTOP);
  ::kill(run_.pid_of_rank(1), SIGKILL);
  // Rank 0 leaves because of rank 1; mpirun then reaps both, rank 0 first.
  EXPECT_TRUE(becomes_zombie(run_.pid_of_rank(0)));
  ::kill(mpirun, SIGCONT);
  EXPECT_EQ(run_.wait(started), kExitFailed);
  EXPECT_THAT(run_.output(), ContainsRegex("parent: rank 1 .* was killed by SIGKILL after step [0-9]+"));
}

TEST_F(MpirunTest, a_rank_that_ends_before_it_has_come_is_named) {
  EXPECT_EQ(run_.wait(parent(3, {"--event", "killed-early"})), kExitFailed);
  EXPECT_THAT(
      run_.output(),
      ContainsRegex("parent: rank 1 \\(host [^ ]+, pid [1-9][0-9]*\\) was killed by SIGKILL while starting"));
  EXPECT_EQ(run_.wait(parent(3, {"--event", "exits-early", "--who", "2"})), 7);
  EXPECT_THAT(run_.output(), ContainsRegex("parent: rank 2 .* exited with code 7 while starting"));
  EXPECT_THAT(run_.output(), Not(HasSubstr("told to end")));
}

TEST_F(MpirunTest, a_rank_that_is_told_to_end_is_named_with_143) {
  const pid_t started = parent(2, {});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(1), SIGTERM);
  EXPECT_EQ(run_.wait(started), kExitTerminated);
  EXPECT_THAT(run_.output(), ContainsRegex("parent: rank 1 .* was told to end by SIGTERM after step "));
}

TEST_F(MpirunTest, a_killed_parent_is_told_of) {
  const pid_t started = parent(2, {"--who", "0"});
  run_.wait_for_ranks(2);
  // Through mpirun, as long as that is there: behind it a file of its own position could be overwritten.
  const std::string errors = fmt::format("/proc/{}/fd/2", run_.pid_of_rank(0));
  EXPECT_THAT(std::filesystem::read_symlink(errors).string(), HasSubstr("pipe"));
  ::kill(started, SIGKILL);
  EXPECT_EQ(run_.wait(started), 128 + SIGKILL);
  EXPECT_EQ(run_.survivors(), "");
  EXPECT_THAT(run_.output(), HasSubstr("rank 0 says: the process that started the ranks"));
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

TEST_F(MpirunTest, a_mpirun_that_hangs_in_the_end_is_ended_with_a_warning) {
  const pid_t started = parent(2, {"--steps", "70", "--timeout", "1"});
  run_.wait_for_ranks(2);
  ::kill(std::stoi(process_status(run_.pid_of_rank(0)).at(1)), SIGSTOP);
  EXPECT_EQ(run_.wait(started), 0);
  EXPECT_THAT(run_.output(), ContainsRegex("warning: mpirun .* did not end"));
}

TEST_F(MpirunTest, a_rank_stopped_under_a_parent_is_named) {
  const pid_t started = parent(2, {"--timeout", "2"});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(0), SIGSTOP);
  EXPECT_EQ(run_.wait(started), kExitFailed);
  EXPECT_THAT(run_.output(), ContainsRegex("parent: rank 0 .* is stopped after step [0-9]+ of resnet50"));
  EXPECT_THAT(run_.kept(1), HasSubstr("rank 0"));
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
