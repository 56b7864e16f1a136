#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

#include "launch/program_run.h"

namespace lockstep::launch {
namespace {

using launch::testing::ProgramRun;
using launch::testing::rank_program;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

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

TEST_F(MpirunTest, a_rank_killed_under_a_parent_is_named) {
  const pid_t started = parent(2, {});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(1), SIGKILL);
  EXPECT_EQ(run_.wait(started), kExitFailed);
  // mpirun tells the signal when it was the first of the ends that it saw.
  EXPECT_THAT(
      run_.output(),
      ContainsRegex(
          "parent: rank 1 .* (was killed by SIGKILL|ended without a goodbye) after step [0-9]+ of resnet50"));
  EXPECT_THAT(run_.kept(0), HasSubstr("rank 1"));
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
