#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/tcp_socket.h"

#include "launch/program_run.h"

namespace lockstep::launch {
namespace {

using launch::testing::ProgramRun;
using launch::testing::tcp_rank_program;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// Started by the user's mpirun: no lockstep parent, rank 0 is the coordinator.
class MpirunByUserTest : public ::testing::Test {
 protected:
  pid_t mpirun(int ranks, std::vector<std::string> arguments) {
    std::vector<std::string> command{"mpirun", "--oversubscribe",    "--bind-to", "none",
                                     "-np",    std::to_string(ranks)};
    if (::geteuid() == 0) command.emplace_back("--allow-run-as-root");
    command.push_back(tcp_rank_program());
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run_.start(command, {{"TMPDIR", run_.folder().string()}});
  }

  void TearDown() override { EXPECT_EQ(run_.survivors(), "") << run_.output(); }

  ProgramRun run_;
};

TEST_F(MpirunByUserTest, ranks_meet_without_an_address_and_leave_no_file) {
  EXPECT_EQ(run_.wait(mpirun(3, {"--steps", "40"})), 0);
  EXPECT_EQ(run_.output(), "");
  for (const auto& entry : std::filesystem::directory_iterator(run_.folder())) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("lockstep")));
  }
}

TEST_F(MpirunByUserTest, a_killed_rank_is_named_by_rank_0_once) {
  const pid_t started = mpirun(3, {});
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
  const pid_t started = mpirun(2, {});
  run_.wait_for_ranks(2);
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
}

TEST_F(MpirunByUserTest, the_error_of_a_rank_is_told_once) {
  EXPECT_EQ(run_.wait(mpirun(3, {"--event", "fail"})), kExitFailed);
  EXPECT_THAT(run_.output(),
              ContainsRegex("rank 0 says: rank 1 .* failed after step 40 of .*: the loss is not finite"));
  EXPECT_THAT(run_.output(), Not(HasSubstr("rank 1 says")));
}

TEST_F(MpirunByUserTest, terminating_mpirun_keeps_what_was_measured) {
  const pid_t started = mpirun(2, {});
  run_.wait_for_ranks(2);
  ::kill(started, SIGTERM);
  EXPECT_NE(run_.wait(started), 0);
  EXPECT_THAT(run_.kept(0), HasSubstr("told to end"));
  EXPECT_THAT(run_.output(), ContainsRegex("rank 0 says: told to end \\(SIGTERM\\)"));
}

TEST_F(MpirunByUserTest, ranks_die_with_a_killed_mpirun) {
  const pid_t started = mpirun(2, {"--event", "deaf"});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(0), SIGSTOP);
  ::kill(started, SIGKILL);
  EXPECT_EQ(run_.wait(started), 128 + SIGKILL);
}

/// Ranks as started by hand with torchrun's variables, or srun's.
class TorchrunTest : public ::testing::Test {
 protected:
  pid_t rank(int rank, int world, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), tcp_rank_program());
    return run_.start(arguments, {{"RANK", std::to_string(rank)},
                                  {"WORLD_SIZE", std::to_string(world)},
                                  {"MASTER_ADDR", "127.0.0.1"},
                                  {"MASTER_PORT", std::to_string(port_)}});
  }

  void TearDown() override { EXPECT_EQ(run_.survivors(), "") << run_.output(); }

  ProgramRun run_;
  int port_ = listen_tcp(true, 0).port;  // free again at once
};

TEST_F(TorchrunTest, ranks_by_hand_find_each_other_and_finish) {
  const pid_t second = rank(1, 2, {"--steps", "40"});
  const pid_t first = rank(0, 2, {"--steps", "40"});
  EXPECT_EQ(run_.wait(first), 0);
  EXPECT_EQ(run_.wait(second), 0);
  EXPECT_EQ(run_.output(), "");
}

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

TEST_F(TorchrunTest, ctrl_c_at_one_rank_ends_all) {
  const pid_t first = rank(0, 2, {});
  const pid_t second = rank(1, 2, {});
  run_.wait_for_ranks(2);
  ::kill(second, SIGINT);
  EXPECT_EQ(run_.wait(first), kExitInterrupted);
  EXPECT_EQ(run_.wait(second), kExitInterrupted);
}

TEST_F(TorchrunTest, a_port_in_use_is_named_with_what_to_change) {
  const Listener taken = listen_tcp(true, 0);
  port_ = taken.port;
  EXPECT_EQ(run_.wait(rank(0, 2, {})), kExitUsage);
  EXPECT_THAT(run_.output(), HasSubstr("port " + std::to_string(port_) + " is in use"));
}

TEST_F(TorchrunTest, ranks_of_a_slurm_step_meet_without_an_address) {
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(
        run_.start({tcp_rank_program(), "--steps", "40"}, {{"SLURM_JOB_ID", std::to_string(::getpid())},
                                                           {"SLURM_STEP_ID", "0"},
                                                           {"SLURM_PROCID", std::to_string(rank)},
                                                           {"SLURM_LOCALID", std::to_string(rank)},
                                                           {"SLURM_NODEID", "0"},
                                                           {"SLURM_STEP_NUM_TASKS", "2"},
                                                           {"SLURM_STEP_TASKS_PER_NODE", "2"},
                                                           {"SLURM_STEP_NODELIST", "node1"}}));
  }
  EXPECT_EQ(run_.wait(ranks[0]), 0);
  EXPECT_EQ(run_.wait(ranks[1]), 0);
  EXPECT_EQ(run_.output(), "");
}

}  // namespace
}  // namespace lockstep::launch
