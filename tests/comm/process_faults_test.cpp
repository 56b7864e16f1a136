#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/file.h"

#include "scratch_folder.h"

// Ranks are real processes here (fault_rank.cpp), and the last of them fails.

namespace lockstep::comm {
namespace {

struct Ended {
  int status = 0;
  std::string output;
};

class ProcessFaultsTest : public testing::Test {
 protected:
  ~ProcessFaultsTest() override {
    for (const pid_t process : processes_) {
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
  }

  /// The number of the started process.
  size_t start(std::vector<std::string> command) {
    const std::filesystem::path output = output_of(processes_.size());
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int file = ::open(output.c_str(), O_WRONLY | O_CREAT, 0600);
      ::dup2(file, STDOUT_FILENO);
      ::dup2(file, STDERR_FILENO);
      std::vector<char*> arguments;
      for (std::string& word : command) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
    processes_.push_back(child);
    return processes_.size() - 1;
  }

  Ended wait_for(size_t process) {
    Ended ended;
    ::waitpid(processes_[process], &ended.status, 0);
    processes_[process] = 0;
    std::erase(processes_, 0);
    ended.output = read_file(output_of(process));
    return ended;
  }

  /// Output of all ranks but the last.
  std::vector<std::string> run_gloo(const std::string& scenario, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      start({FAULT_RANK, "gloo", scenario, std::to_string(rank), std::to_string(ranks),
             (folder_ / "store").string()});
    }
    std::vector<std::string> said;
    for (int rank = 0; rank < ranks - 1; ++rank) {
      int status = 0;
      ::waitpid(processes_[size_t(rank)], &status, 0);
      EXPECT_EQ(status, 0) << "rank " << rank;
      said.push_back(read_file(output_of(size_t(rank))));
    }
    processes_.erase(processes_.begin(), processes_.end() - 1);
    return said;
  }

  Ended run_mpi(const std::string& scenario, int ranks) {
    return wait_for(
        start({MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np",
               std::to_string(ranks), FAULT_RANK, "mpi", scenario, "0", "0", (folder_ / "store").string()}));
  }

 private:
  std::filesystem::path output_of(size_t process) const {
    return folder_ / fmt::format("output-{}", process);
  }

  test::ScratchFolder scratch_;
  std::filesystem::path folder_ = scratch_.path();
  std::vector<pid_t> processes_;
};

void expect_noticed(const std::string& said, const std::string& error, double most_s) {
  ASSERT_EQ(said.rfind(error + " ", 0), 0U) << said;
  EXPECT_LT(std::stod(said.substr(error.size())), most_s) << said;
}

// A healthy rank's time-out is 3 s; these bounds only tell noticing at once from waiting for it, and that
// from hanging.
constexpr double kAtOnce_s = 2.9;
constexpr double kInTime_s = 10;

TEST_F(ProcessFaultsTest, gloo_notices_a_killed_rank_at_once) {
  for (const std::string& said : run_gloo("killed", 3)) expect_noticed(said, "PeerLostError", kAtOnce_s);
}

TEST_F(ProcessFaultsTest, gloo_notices_a_killed_sender_at_once) {
  for (const std::string& said : run_gloo("killed_message", 3))
    expect_noticed(said, "PeerLostError", kAtOnce_s);
}

TEST_F(ProcessFaultsTest, gloo_gives_up_on_a_stopped_rank) {
  for (const std::string& said : run_gloo("stopped", 2)) expect_noticed(said, "TimeoutError", kInTime_s);
}

TEST_F(ProcessFaultsTest, gloo_gives_up_on_a_rank_that_stays_away) {
  for (const std::string& said : run_gloo("absent", 2)) expect_noticed(said, "TimeoutError", kInTime_s);
}

TEST_F(ProcessFaultsTest, gloo_gives_up_joining_when_a_rank_never_comes) {
  for (const std::string& said : run_gloo("never_joins", 2)) expect_noticed(said, "TimeoutError", kInTime_s);
}

TEST_F(ProcessFaultsTest, gloo_ends_in_silence_when_all_is_well) {
  for (const std::string& said : run_gloo("clean", 2)) EXPECT_EQ(said, "");
}

TEST_F(ProcessFaultsTest, mpi_ends_in_silence_when_all_is_well) {
  const Ended ended = run_mpi("clean", 2);
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.output, "");
}

TEST_F(ProcessFaultsTest, mpi_ends_in_silence_when_nobody_connects) {
  const Ended ended = run_mpi("no_connect", 2);
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.output, "");
}

TEST_F(ProcessFaultsTest, mpi_gives_up_on_a_rank_that_stays_away) {
  const Ended ended = run_mpi("absent", 2);
  const size_t at = ended.output.find("TimeoutError");
  ASSERT_NE(at, std::string::npos) << ended.output;
  expect_noticed(ended.output.substr(at), "TimeoutError", kInTime_s);
}

TEST_F(ProcessFaultsTest, mpi_does_not_wait_for_a_rank_that_leaves_with_an_error) {
  // The last rank must not finalise, which would wait for the others: mpirun sees it go and ends them.
  const Ended ended = run_mpi("leaves", 2);
  EXPECT_NE(ended.status, 0);
  EXPECT_EQ(ended.output.find("TimeoutError"), std::string::npos) << ended.output;
}

}  // namespace
}  // namespace lockstep::comm
