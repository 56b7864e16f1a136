#include <filesystem>

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
using launch::testing::tcp_rank_program;
using ::testing::HasSubstr;
using ::testing::Not;

/// How ranks that no parent started find each other.
class MeetingTest : public ::testing::Test {
 protected:
  /// With torchrun's variables, by hand.
  pid_t rank(int rank, int world, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), tcp_rank_program());
    return run_.start(arguments, {{"RANK", std::to_string(rank)},
                                  {"WORLD_SIZE", std::to_string(world)},
                                  {"LOCAL_RANK", one_host_ ? std::to_string(rank) : "0"},
                                  {"LOCAL_WORLD_SIZE", one_host_ ? std::to_string(world) : "1"},
                                  {"LOCKSTEP_TOKEN", token_},
                                  {"MASTER_ADDR", "127.0.0.1"},
                                  {"MASTER_PORT", std::to_string(port_)}});
  }

  void TearDown() override { EXPECT_EQ(run_.survivors(), "") << run_.output(); }

  ProgramRun run_;
  /// Otherwise every rank takes itself for the only one of its host.
  bool one_host_ = true;
  std::string token_;
  int port_ = listen_tcp(kLoopback, 0).port;  // free again at once
};

TEST_F(MeetingTest, ranks_meet_without_an_address_and_leave_no_file) {
  std::vector<std::string> command = mpirun_command(2);
  command.insert(command.end(), {tcp_rank_program(), "--steps", "60"});
  EXPECT_EQ(run_.wait(run_.start(command, {{"TMPDIR", run_.folder().string()}})), 0);
  EXPECT_EQ(run_.output(), "");
  for (const auto& entry : std::filesystem::directory_iterator(run_.folder())) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("lockstep")));
  }
}

TEST_F(MeetingTest, ranks_by_hand_find_each_other_and_finish) {
  const pid_t second = rank(1, 2, {"--steps", "60"});
  const pid_t first = rank(0, 2, {"--steps", "60"});
  EXPECT_EQ(run_.wait(first), 0);
  EXPECT_EQ(run_.wait(second), 0);
  EXPECT_EQ(run_.output(), "");
}

TEST_F(MeetingTest, ranks_of_several_hosts_find_each_other) {
  one_host_ = false;
  const pid_t second = rank(1, 2, {"--steps", "60"});
  const pid_t first = rank(0, 2, {"--steps", "60"});
  EXPECT_EQ(run_.wait(first), 0);
  EXPECT_EQ(run_.wait(second), 0);
  EXPECT_EQ(run_.output(), "");
}

TEST_F(MeetingTest, a_rank_with_another_token_is_turned_away_and_named) {
  one_host_ = false;
  token_ = "0123456789abcdef0123456789abcdef";
  const pid_t first = rank(0, 2, {"--steps", "60"});
  token_ = "fedcba9876543210fedcba9876543210";
  const pid_t stranger = rank(1, 2, {"--steps", "60"});
  EXPECT_EQ(run_.wait(stranger), kExitFailed);
  EXPECT_THAT(run_.output(), HasSubstr("turned rank 1 away: it did not know the token of this job"));
  token_ = "0123456789abcdef0123456789abcdef";
  const pid_t second = rank(1, 2, {"--steps", "60"});
  EXPECT_EQ(run_.wait(first), 0) << run_.output();
  EXPECT_EQ(run_.wait(second), 0) << run_.output();
  EXPECT_THAT(run_.output(), HasSubstr("kept out of this job"));
}

TEST_F(MeetingTest, a_port_in_use_is_named_with_what_to_change) {
  const Listener taken = listen_tcp(kLoopback, 0);
  port_ = taken.port;
  EXPECT_EQ(run_.wait(rank(0, 2, {})), kExitUsage);
  EXPECT_THAT(run_.output(), HasSubstr("port " + std::to_string(port_) + " is in use"));
}

TEST_F(MeetingTest, ranks_of_a_slurm_step_meet_without_an_address) {
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(
        run_.start({tcp_rank_program(), "--steps", "60"}, {{"SLURM_JOB_ID", std::to_string(::getpid())},
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

TEST_F(MeetingTest, a_rank_that_waits_for_rank_0_says_why_it_does_not_find_it) {
  one_host_ = false;
  EXPECT_EQ(run_.wait(rank(1, 2, {"--join-timeout", "0.5"})), kExitFailed);
  EXPECT_THAT(run_.output(), HasSubstr("waited for rank 0 for 0.5 s: cannot connect to 127.0.0.1:" +
                                       std::to_string(port_) + ": Connection refused"));
}

TEST_F(MeetingTest, rank_0_reports_ranks_that_did_not_come_and_leaves_no_file) {
  const pid_t first =
      run_.start({tcp_rank_program(), "--join-timeout", "0.5"}, {{"RANK", "0"},
                                                                 {"WORLD_SIZE", "3"},
                                                                 {"MASTER_ADDR", "127.0.0.1"},
                                                                 {"MASTER_PORT", std::to_string(port_)},
                                                                 {"TMPDIR", run_.folder().string()}});
  EXPECT_EQ(run_.wait(first), kExitFailed);
  EXPECT_EQ(run_.output(), "rank 0 says: only 1 of 3 ranks came within 0.5 s: ranks 1, 2 did not\n");
  for (const auto& entry : std::filesystem::directory_iterator(run_.folder())) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("lockstep")));
  }
}

}  // namespace
}  // namespace lockstep::launch
