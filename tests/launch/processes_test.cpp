#include <chrono>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "lockstep/base/error.h"

#include "launch/program_run.h"

namespace lockstep::launch {
namespace {

using launch::testing::ProgramRun;
using launch::testing::rank_program;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class ProcessesTest : public ::testing::Test {
 protected:
  pid_t start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), rank_program());
    return run_.start(arguments);
  }

  void TearDown() override { EXPECT_EQ(run_.survivors(), "") << run_.output(); }

  ProgramRun run_;
};

TEST_F(ProcessesTest, ranks_that_finish_give_0) {
  const pid_t parent = start({"--ranks", "3", "--steps", "60"});
  EXPECT_EQ(run_.wait(parent), 0);
  EXPECT_EQ(run_.output(), "");
  EXPECT_NE(run_.pid_of_rank(2), 0);
}

TEST_F(ProcessesTest, a_killed_rank_is_named_with_signal_and_step) {
  const pid_t parent = start({"--ranks", "3"});
  run_.wait_for_ranks(3);
  ::kill(run_.pid_of_rank(1), SIGKILL);
  EXPECT_EQ(run_.wait(parent), kExitFailed);
  const std::string expected = "parent: rank 1 \\(host [^ ]+, pid " + std::to_string(run_.pid_of_rank(1)) +
                               "\\) was killed by SIGKILL after step [0-9]+ of resnet50 ddp 3 ranks\n";
  EXPECT_THAT(run_.output(), ContainsRegex(expected));
  EXPECT_THAT(run_.output(), Not(HasSubstr("says")));
  EXPECT_THAT(run_.kept(0), HasSubstr("rank 1"));
  EXPECT_THAT(run_.kept(2), HasSubstr("was killed by SIGKILL after step"));
}

TEST_F(ProcessesTest, a_killed_rank_0_is_named) {
  const pid_t parent = start({"--ranks", "2"});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(0), SIGUSR1);
  EXPECT_EQ(run_.wait(parent), kExitFailed);
  EXPECT_THAT(run_.output(), ContainsRegex("parent: rank 0 .* was killed by SIGUSR1 after step [0-9]+ of"));
  EXPECT_THAT(run_.kept(1), HasSubstr("rank 0"));
}

TEST_F(ProcessesTest, a_stopped_rank_is_named_within_the_time_out) {
  const pid_t parent = start({"--ranks", "2", "--timeout", "2"});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(1), SIGSTOP);
  EXPECT_EQ(run_.wait(parent), kExitFailed);
  EXPECT_THAT(run_.output(),
              ContainsRegex("parent: rank 1 .* is stopped after step [0-9]+ of resnet50 ddp 2 ranks: "
                            "nothing heard from it for [0-9.]+ s\n"));
  EXPECT_THAT(run_.kept(0), HasSubstr("is stopped"));
}

TEST_F(ProcessesTest, a_short_stop_is_no_alarm) {
  const pid_t parent = start({"--ranks", "2", "--timeout", "5", "--steps", "120"});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(1), SIGSTOP);
  ::usleep(300'000);
  ::kill(run_.pid_of_rank(1), SIGCONT);
  EXPECT_EQ(run_.wait(parent), 0) << run_.output();
}

TEST_F(ProcessesTest, ranks_die_with_a_killed_parent_even_when_stopped_or_deaf) {
  const pid_t parent = start({"--ranks", "3", "--event", "deaf"});
  run_.wait_for_ranks(3);
  ::kill(run_.pid_of_rank(2), SIGSTOP);
  ::kill(parent, SIGKILL);
  EXPECT_EQ(run_.wait(parent), 128 + SIGKILL);
}

TEST_F(ProcessesTest, rank_0_tells_of_a_killed_parent) {
  const pid_t parent = start({"--ranks", "2"});
  run_.wait_for_ranks(2);
  ::kill(parent, SIGKILL);
  EXPECT_EQ(run_.wait(parent), 128 + SIGKILL);
  EXPECT_EQ(run_.survivors(), "");
  EXPECT_THAT(run_.output(),
              ContainsRegex("rank 0 says: the process that started the ranks .* ended without"));
}

TEST_F(ProcessesTest, a_deaf_rank_0_dies_with_a_killed_parent_too) {
  const pid_t parent = start({"--ranks", "2", "--event", "deaf", "--who", "0"});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(0), SIGSTOP);
  ::kill(parent, SIGKILL);
  EXPECT_EQ(run_.wait(parent), 128 + SIGKILL);
}

TEST_F(ProcessesTest, a_stopped_parent_is_named_by_rank_0) {
  const pid_t parent = start({"--ranks", "2", "--timeout", "2"});
  run_.wait_for_ranks(2);
  ::kill(parent, SIGSTOP);
  EXPECT_EQ(run_.survivors(), "");
  EXPECT_THAT(run_.output(),
              ContainsRegex("rank 0 says: the process that started the ranks \\(host [^ ]+, pid " +
                            std::to_string(parent) + "\\) is stopped"));
  EXPECT_THAT(run_.kept(1), HasSubstr("is stopped"));
  ::kill(parent, SIGCONT);
  EXPECT_EQ(run_.wait(parent), kExitFailed);
  EXPECT_THAT(run_.output(), Not(HasSubstr("parent: the process"))) << "said twice";
}

TEST_F(ProcessesTest, a_parent_that_was_stopped_while_they_start_accuses_no_rank) {
  const pid_t parent = start({"--ranks", "2", "--event", "late", "--timeout", "1", "--steps", "60"});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ::kill(parent, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  ::kill(parent, SIGCONT);
  EXPECT_EQ(run_.wait(parent), 0);
  EXPECT_EQ(run_.output(), "");
}

TEST_F(ProcessesTest, ctrl_z_stops_the_ranks_and_fg_lets_them_finish) {
  const pid_t parent = start({"--ranks", "2", "--timeout", "1", "--steps", "200"});
  run_.wait_for_ranks(2);
  ::kill(parent, SIGTSTP);
  int status = 0;
  ASSERT_EQ(::waitpid(parent, &status, WUNTRACED), parent);
  ASSERT_TRUE(WIFSTOPPED(status));
  ::usleep(1'500'000);  // longer than the time-out
  ::kill(parent, SIGCONT);
  EXPECT_EQ(run_.wait(parent), 0) << run_.output();
}

class InterruptTest : public ProcessesTest, public ::testing::WithParamInterface<int> {};

TEST_P(InterruptTest, ends_all_and_keeps_what_was_measured) {
  const pid_t parent = start({"--ranks", "2"});
  run_.wait_for_ranks(2);
  ::kill(parent, GetParam());
  EXPECT_EQ(run_.wait(parent), 128 + GetParam());
  EXPECT_NE(run_.kept(0), "");
  EXPECT_NE(run_.kept(1), "");
  EXPECT_THAT(run_.output(), Not(HasSubstr("lost")));
}

INSTANTIATE_TEST_SUITE_P(Signals, InterruptTest, ::testing::Values(SIGINT, SIGTERM, SIGHUP));

TEST_F(ProcessesTest, ctrl_c_ends_a_rank_that_does_not_listen) {
  const pid_t parent = start({"--ranks", "2"});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(1), SIGSTOP);
  ::kill(parent, SIGINT);
  EXPECT_EQ(run_.wait(parent), kExitInterrupted);
}

TEST_F(ProcessesTest, the_error_of_a_rank_is_told_once) {
  const pid_t parent = start({"--ranks", "3", "--event", "fail"});
  EXPECT_EQ(run_.wait(parent), kExitFailed);
  EXPECT_THAT(
      run_.output(),
      ContainsRegex(
          "^parent: rank 1 \\(host [^ ]+, pid [0-9]+\\) failed after step 60 of resnet50 ddp 3 ranks: "
          "the loss is not finite\nadvice: Lower the learning rate.\nlost: 1\n$"));
}

TEST_F(ProcessesTest, the_kind_of_error_decides_the_exit_code) {
  const pid_t parent = start({"--ranks", "2", "--event", "config"});
  EXPECT_EQ(run_.wait(parent), kExitUsage);
  EXPECT_THAT(run_.output(), HasSubstr("there is no such model"));
}

TEST_F(ProcessesTest, a_rank_that_only_exits_is_named) {
  const pid_t parent = start({"--ranks", "2", "--event", "exit"});
  EXPECT_EQ(run_.wait(parent), 7);
  EXPECT_THAT(run_.output(), ContainsRegex("parent: rank 1 .* exited with code 7 after step [0-9]+ of"));
}

TEST_F(ProcessesTest, a_code_after_the_goodbye_is_passed_on) {
  const pid_t parent = start({"--ranks", "2", "--event", "goodbye-exit", "--steps", "70"});
  EXPECT_EQ(run_.wait(parent), 3);
  EXPECT_EQ(run_.output(), "");
}

TEST_F(ProcessesTest, a_rank_that_hangs_after_its_goodbye_is_ended) {
  const pid_t parent = start({"--ranks", "2", "--event", "goodbye-hang", "--steps", "70", "--timeout", "1"});
  EXPECT_EQ(run_.wait(parent), 0);
  EXPECT_THAT(run_.output(), ContainsRegex("^warning: rank 1 .* did not end, and was killed"));
}

TEST_F(ProcessesTest, a_rank_that_ends_before_it_has_come_is_named) {
  const pid_t parent = start({"--ranks", "2", "--event", "killed-early"});
  EXPECT_EQ(run_.wait(parent), kExitFailed);
  EXPECT_THAT(
      run_.output(),
      ContainsRegex("parent: rank 1 \\(host [^ ]+, pid [1-9][0-9]*\\) was killed by SIGKILL while starting"));
}

TEST_F(ProcessesTest, a_rank_that_does_not_leave_is_ended) {
  const pid_t parent = start({"--ranks", "3", "--event", "deaf"});
  run_.wait_for_ranks(3);
  ::kill(run_.pid_of_rank(0), SIGKILL);
  EXPECT_EQ(run_.wait(parent), kExitFailed);
  EXPECT_THAT(run_.output(), ContainsRegex("parent: rank 0 .* was killed by SIGKILL"));
}

TEST_F(ProcessesTest, a_communication_error_is_put_down_to_the_rank_that_died) {
  // Rank 1 complains of a broken connection while rank 0 is stopped: rank 0 is the cause.
  const pid_t parent = start({"--ranks", "2", "--event", "disturbed", "--at", "300", "--timeout", "20"});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(0), SIGSTOP);
  EXPECT_EQ(run_.wait(parent), kExitFailed);
  EXPECT_THAT(run_.output(), ContainsRegex("parent: rank 0 .* is stopped"));
  EXPECT_THAT(run_.output(), Not(HasSubstr("connection reset")));
}

TEST_F(ProcessesTest, a_communication_error_without_other_cause_is_told) {
  const pid_t parent = start({"--ranks", "2", "--event", "disturbed"});
  EXPECT_EQ(run_.wait(parent), kExitFailed);
  EXPECT_THAT(run_.output(),
              ContainsRegex("parent: rank 1 .* failed after step 60 .*: connection reset by peer"));
}

TEST_F(ProcessesTest, a_rank_that_is_told_to_end_ends_the_job) {
  const pid_t parent = start({"--ranks", "2"});
  run_.wait_for_ranks(2);
  ::kill(run_.pid_of_rank(1), SIGTERM);
  EXPECT_EQ(run_.wait(parent), kExitTerminated);
  EXPECT_THAT(run_.output(), ContainsRegex("parent: rank 1 .* was told to end by SIGTERM after step"));
  EXPECT_NE(run_.kept(0), "");
}

}  // namespace
}  // namespace lockstep::launch
