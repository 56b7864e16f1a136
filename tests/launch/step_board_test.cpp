#include "lockstep/launch/step_board.h"

#include <csignal>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/launch/progress.h"

namespace lockstep::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(StepBoardTest, rank_0_reads_the_steps_of_a_process_that_was_killed) {
  StepBoard board = StepBoard::make(2);
  ASSERT_NE(board.address(), "");
  board.take(0)->add(0.25);
  const pid_t rank_1 = ::fork();
  if (rank_1 == 0) {
    // As another program would: by the address alone.
    StepBoard own = StepBoard::open(board.address(), 2);
    Progress progress;
    progress.keep_times(own.take(1));
    for (const double step_s : {0.5, 0.75}) progress.took(step_s);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(rank_1, &status, 0), rank_1);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(board.read(2), ElementsAre(ElementsAre(0.25), ElementsAre(0.5, 0.75)));
}

TEST(StepBoardTest, a_new_row_begins_without_the_steps_of_the_last) {
  StepBoard board = StepBoard::make(1);
  Progress progress;
  progress.took(1);
  for (const double step_s : {0.5, 0.25}) {
    progress.keep_times(board.take(0));
    progress.took(step_s);
    EXPECT_THAT(board.read(1), ElementsAre(ElementsAre(step_s)));
  }
  progress.keep_times(nullptr);
  progress.took(0.125);
  EXPECT_THAT(board.read(1), ElementsAre(ElementsAre(0.25)));
}

TEST(StepBoardTest, steps_beyond_the_last_place_are_left_out) {
  StepBoard board = StepBoard::make(2);
  for (size_t i = 0; i < StepTimes::kMost + 5; ++i) board.take(0)->add(1);
  board.take(1);
  const auto read = board.read(2);
  EXPECT_EQ(read[0].size(), StepTimes::kMost);
  EXPECT_THAT(read[1], IsEmpty()) << "they must not run into the next rank's";
}

TEST(StepBoardTest, ranks_behind_one_that_has_no_place_are_left_out) {
  StepBoard board = StepBoard::make(3);
  board.take(0);
  board.take(2);
  EXPECT_EQ(board.read(3).size(), 1U);
}

TEST(StepBoardTest, memory_that_is_not_rank_0s_is_left_alone) {
  StepBoard board = StepBoard::make(2);
  std::istringstream parts(board.address());
  std::string path, name;
  parts >> path >> name;
  const auto place = [](const std::string& address, int ranks) {
    return StepBoard::open(address, ranks).take(0);
  };
  EXPECT_NE(place(board.address(), 2), nullptr);
  EXPECT_EQ(place(path + " " + name + "1", 2), nullptr);
  EXPECT_EQ(place("/proc/self/fd/0 " + name, 2), nullptr);
  EXPECT_EQ(place("/proc/self/fd/99999 " + name, 2), nullptr);
  EXPECT_EQ(place(board.address(), 3), nullptr);
  EXPECT_EQ(place("", 2), nullptr);
  EXPECT_THAT(StepBoard().read(2), IsEmpty());
}

}  // namespace
}  // namespace lockstep::launch
