#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/tcp_socket.h"

#include "launch/program_run.h"

namespace lockstep::launch {
namespace {

using launch::testing::mpirun_command;
using launch::testing::ProgramRun;
using launch::testing::rank_program;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// Started by the user's mpirun: no lockstep parent, rank 0 hosts the job's server.
class MpirunByUserTest : public ::testing::Test {
 protected:
  pid_t mpirun(int ranks, const std::vector<std::string>& arguments) {
    std::vector<std::string> command = mpirun_command(ranks);
    command.push_back(rank_program());
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run_.start(command);
  }

  void TearDown() override { EXPECT_EQ(run_.survivors(), "") << run_.output(); }

  ProgramRun run_;
};

TEST_F(MpirunByUserTest, a_killed_rank_is_named_by_rank_0_once) {
  const pid_t started = mpirun(3, {"--event", "slow", "--who", "0"});
  run_.wait_for_ranks(3);
  ::kill(run_.pid_of_rank(2), SIGKILL);
  EXPECT_NE(run_.wait(started), 0);
  const std::string expected = "rank 0 says: rank 2 \\(host [^ ]+, pid " +
                               std::to_string(run_.pid_of_rank(2)) +
                               "\\) ended without a goodbye after step [0-9]+ of resnet50 ddp 3 ranks";
  EXPECT_THAT(run_.output(), ContainsRegex(expected));
  EXPECT_THAT(run_.output(), Not(HasSubstr("rank 1 says")));
  EXPECT_THAT(run_.kept(1), HasSubstr("rank 2"));
}

TEST_F(MpirunByUserTest, a_killed_rank_0_is_named_by_rank_1) {
  const pid_t started = mpirun(3, {"--event", "slow", "--who", "1"});
  run_.wait_for_ranks(3);
  ::kill(run_.pid_of_rank(0), SIGKILL);
  EXPECT_NE(run_.wait(started), 0);
  EXPECT_THAT(run_.output(),
              ContainsRegex("rank 1 says: rank 0 .* ended without a goodbye after step [0-9]+ of"));
}

TEST_F(MpirunByUserTest, a_stopped_rank_is_named_by_rank_0) {
  const pid_t started = mpirun(2, {"--timeout", "2"});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(1), SIGSTOP);
  EXPECT_EQ(run_.wait(started), kExitFailed);
  EXPECT_THAT(run_.output(), ContainsRegex("rank 0 says: rank 1 .* is stopped after step [0-9]+ of"));
}

TEST_F(MpirunByUserTest, a_stopped_rank_0_is_named_by_rank_1) {
  const pid_t started = mpirun(2, {"--timeout", "2"});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(0), SIGSTOP);
  EXPECT_EQ(run_.wait(started), kExitFailed);
  EXPECT_THAT(run_.output(), ContainsRegex("rank 1 says: rank 0 .* is stopped after step [0-9]+ of"));
  EXPECT_THAT(run_.output(), Not(HasSubstr("rank 0 says")));
}

TEST_F(MpirunByUserTest, the_error_of_a_rank_is_told_once) {
  EXPECT_EQ(run_.wait(mpirun(3, {"--event", "fail"})), kExitFailed);
  EXPECT_THAT(run_.output(),
              ContainsRegex("rank 0 says: rank 1 .* failed after step 60 of .*: the loss is not finite"));
  EXPECT_THAT(run_.output(), Not(HasSubstr("rank 1 says")));
}

/// mpirun kills the ranks that are left once one has ended.
TEST_F(MpirunByUserTest, terminating_mpirun_keeps_what_was_measured) {
  const pid_t started = mpirun(2, {"--event", "slow", "--who", "0"});
  run_.wait_for_ranks(2);
  ::kill(started, SIGTERM);
  EXPECT_NE(run_.wait(started), 0);
  EXPECT_THAT(run_.kept(0), HasSubstr("told to end"));
  EXPECT_THAT(run_.output(), ContainsRegex("rank 0 says: rank 0 .* was told to end by SIGTERM after step "));
}

TEST_F(MpirunByUserTest, ranks_die_with_a_killed_mpirun) {
  const pid_t started = mpirun(2, {"--event", "deaf"});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(0), SIGSTOP);
  ::kill(started, SIGKILL);
  EXPECT_EQ(run_.wait(started), 128 + SIGKILL);
}

/// Ranks started by hand with torchrun's variables.
class TorchrunTest : public ::testing::Test {
 protected:
  pid_t rank(int rank, int world, std::vector<std::string> arguments, int local_world = 0) {
    arguments.insert(arguments.begin(), rank_program());
    ProgramRun::Environment environment{{"RANK", std::to_string(rank)},
                                        {"WORLD_SIZE", std::to_string(world)},
                                        {"MASTER_ADDR", "127.0.0.1"},
                                        {"MASTER_PORT", port_}};
    if (local_world > 0) {
      environment.emplace_back("LOCAL_RANK", std::to_string(rank % local_world));
      environment.emplace_back("LOCAL_WORLD_SIZE", std::to_string(local_world));
    }
    return run_.start(arguments, environment);
  }

  void TearDown() override { EXPECT_EQ(run_.survivors(), "") << run_.output(); }

  const std::string port_ = std::to_string(listen_tcp(kLoopback, 0).port);  // free again at once
  ProgramRun run_;
};

TEST_F(TorchrunTest, a_killed_rank_is_named_by_rank_0) {
  const pid_t first = rank(0, 2, {});
  const pid_t second = rank(1, 2, {});
  run_.wait_for_ranks(2);
  ::kill(second, SIGKILL);
  EXPECT_EQ(run_.wait(first), kExitFailed);
  run_.wait(second);
  EXPECT_THAT(run_.output(),
              ContainsRegex("rank 0 says: rank 1 .* ended without a goodbye after step [0-9]+ of"));
}

TEST_F(TorchrunTest, a_lost_host_of_rank_0_is_named_by_a_rank_of_the_other) {
  std::vector<pid_t> started;
  for (int number = 0; number < 4; ++number) started.push_back(rank(number, 4, {}, 2));
  run_.wait_for_ranks(4);
  // Rank 0 first: it would tell of rank 1 otherwise, with its last breath.
  ::kill(started[0], SIGKILL);
  ::kill(started[1], SIGKILL);
  EXPECT_EQ(run_.wait(started[2]), kExitFailed);
  EXPECT_EQ(run_.wait(started[3]), kExitFailed);
  EXPECT_THAT(run_.output(), ContainsRegex("rank 2 says: rank [01] .* ended without a goodbye after step "));
  EXPECT_THAT(run_.output(), Not(HasSubstr("rank 3 says")));
}

TEST_F(TorchrunTest, a_loss_is_named_on_each_host_where_rank_0_ends_before_it_can) {
  std::vector<pid_t> started;
  for (int number = 0; number < 4; ++number)
    started.push_back(rank(number, 4, {"--event", "deaf", "--who", "0"}, 2));
  run_.wait_for_ranks(4);
  ::kill(started[1], SIGKILL);
  // The verdict has reached rank 2, while rank 0 takes its time to print it.
  for (int i = 0; i < 1000 && run_.kept(2).empty(); ++i) ::usleep(10'000);
  ::kill(started[0], SIGKILL);
  EXPECT_EQ(run_.wait(started[2]), kExitFailed);
  EXPECT_EQ(run_.wait(started[3]), kExitFailed);
  EXPECT_THAT(run_.output(), ContainsRegex("rank 2 says: rank 1 .* ended without a goodbye after step "));
  EXPECT_THAT(run_.output(), Not(HasSubstr("rank 3 says")));
}

TEST_F(TorchrunTest, a_rank_that_alone_is_told_to_end_is_named) {
  const pid_t first = rank(0, 2, {});
  const pid_t second = rank(1, 2, {});
  run_.wait_for_ranks(2);
  ::kill(second, SIGTERM);
  EXPECT_EQ(run_.wait(first), kExitTerminated);
  EXPECT_EQ(run_.wait(second), kExitTerminated);
  EXPECT_THAT(run_.output(), ContainsRegex("rank 0 says: rank 1 .* was told to end by SIGTERM after step "));
}

TEST_F(TorchrunTest, a_rank_0_that_alone_is_told_to_end_names_itself) {
  const pid_t first = rank(0, 2, {});
  const pid_t second = rank(1, 2, {});
  run_.wait_for_ranks(2);
  ::kill(first, SIGTERM);
  EXPECT_EQ(run_.wait(first), kExitTerminated);
  EXPECT_EQ(run_.wait(second), kExitTerminated);
  EXPECT_THAT(run_.output(), ContainsRegex("rank 0 says: rank 0 .* was told to end by SIGTERM after step "));
}

TEST_F(TorchrunTest, ctrl_c_at_one_rank_ends_all) {
  const pid_t first = rank(0, 2, {});
  const pid_t second = rank(1, 2, {});
  run_.wait_for_ranks(2);
  ::kill(second, SIGINT);
  EXPECT_EQ(run_.wait(first), kExitInterrupted);
  EXPECT_EQ(run_.wait(second), kExitInterrupted);
}

}  // namespace
}  // namespace lockstep::launch
