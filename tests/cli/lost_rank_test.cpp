#include <csignal>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/results/files/record_json.h"

#include "cli/program.h"
#include "cli/row_steps.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

/// A bench whose first network is measured in a moment and whose second would take minutes.
class LostRankTest : public testing::Test {
 protected:
  std::vector<std::string> command() const {
    return {"lockstep",
            "bench",
            "--no-controls",
            "--model",
            "lenet5,resnet18",
            "--batch",
            "1",
            "--ranks",
            "2",
            "--steps",
            "400",
            "--warmup",
            "0",
            "--threads",
            "1",
            "--timeout",
            "3",
            "--json",
            folder_.path("a.json")};
  }

  std::vector<std::string> command_under_mpirun() const {
    std::vector<std::string> all = command();
    all.front() = LOCKSTEP_PROGRAM;
    all.insert(all.begin(), {"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"});
    all.insert(all.end(), {"--backend", "mpi"});
    return all;
  }

  /// Waits until the second network's row has made steps, of which heartbeats have told.
  void wait_until_training(const test::Program& program) const {
    const std::string file = folder_.path("a.json");
    test::wait_for_steps(program, file, test::wait_for_steps(program, file, 0, 1), 1);
  }

  /// The rank's process: the one whose environment says so.
  static pid_t rank_process(const test::Program& program, const std::string& variable, int rank) {
    std::vector<pid_t> found;
    const auto is_found = [&] {
      found = program.descendants(variable, std::to_string(rank));
      // Rank 0 has a guardian, a copy of it.
      std::erase_if(found, [](pid_t pid) {
        std::ifstream name("/proc/" + std::to_string(pid) + "/comm");
        return std::string(std::istreambuf_iterator<char>(name), {}) == "lockstep-guard\n";
      });
      return found.size() == 1;
    };
    // A child of rank 0 names each new state of the result, so it is there for a moment after that is seen.
    // Never a made-up process: kill() takes -1 for all there are.
    if (!program.poll_until(10, is_found)) {
      throw std::runtime_error(std::to_string(found.size()) + " processes are rank " + std::to_string(rank) +
                               ", not 1:\n" + program.error());
    }
    return found.front();
  }

  /// The file holds what was measured before, and says why that is not all.
  void expect_kept(const std::string& reason) const {
    const results::RunRecord record = results::read_record(folder_.path("a.json"));
    EXPECT_THAT(record.incomplete, HasSubstr(reason));
    ASSERT_GE(record.runs.size(), 1u);
    EXPECT_EQ(record.runs.front().model, "lenet5");
    EXPECT_TRUE(record.runs.front().finished());
    ASSERT_EQ(record.runs.size(), 2u);
    EXPECT_EQ(record.runs.back().model, "resnet18");
    EXPECT_EQ(record.runs.back().unfinished, record.incomplete);
    EXPECT_FALSE(record.runs.back().speedup);
    EXPECT_FALSE(std::filesystem::exists(folder_.path("a.json.partial")));
  }

  test::ScratchFolder folder_;
};

TEST_F(LostRankTest, a_killed_rank_is_named_with_its_last_step) {
  for (const int rank : {1, 0}) {
    test::Program program(command());
    wait_until_training(program);
    ::kill(rank_process(program, "LOCKSTEP_RANK", rank), SIGKILL);
    EXPECT_EQ(program.wait(), 1);
    EXPECT_THAT(program.error(), HasSubstr("rank " + std::to_string(rank) + " (host "));
    EXPECT_THAT(program.error(), HasSubstr("was killed by SIGKILL after step "));
    EXPECT_THAT(program.error(), HasSubstr("of resnet18 ddp 2 ranks"));
    EXPECT_TRUE(program.nothing_left_behind());
    expect_kept("killed by SIGKILL");
    EXPECT_THAT(program.output(), HasSubstr("lenet5"));
    std::filesystem::remove(folder_.path("a.json"));
  }
}

TEST_F(LostRankTest, a_stopped_rank_is_named_within_the_timeout) {
  test::Program program(command());
  wait_until_training(program);
  ::kill(rank_process(program, "LOCKSTEP_RANK", 1), SIGSTOP);
  EXPECT_EQ(program.wait(), 1);
  EXPECT_THAT(program.error(), HasSubstr("rank 1 (host "));
  EXPECT_THAT(program.error(), HasSubstr("stopped"));
  EXPECT_TRUE(program.nothing_left_behind());
  expect_kept("stopped");
}

/// Rank 0 reports it meanwhile, with the tables.
TEST_F(LostRankTest, a_parent_that_was_stopped_does_not_repeat_it) {
  test::Program program(command());
  wait_until_training(program);
  program.signal(SIGSTOP);
  EXPECT_TRUE(program.wait_for_error("marked incomplete"));
  program.signal(SIGCONT);
  EXPECT_EQ(program.wait(), 1);
  EXPECT_TRUE(program.nothing_left_behind());
  EXPECT_EQ(test::occurrences(program.error(), "the process that started the ranks (host "), 1U);
  EXPECT_EQ(test::occurrences(program.error(), "marked incomplete"), 1U) << program.error();
}

TEST_F(LostRankTest, no_rank_outlives_a_killed_parent) {
  test::Program program(command());
  wait_until_training(program);
  program.signal(SIGKILL);
  EXPECT_EQ(program.wait(), 128 + SIGKILL);
  EXPECT_TRUE(program.nothing_left_behind());
  EXPECT_THAT(program.error(), HasSubstr("the process that started the ranks (host "));
  const results::RunRecord record = results::read_record(folder_.path("a.json"));
  EXPECT_NE(record.incomplete, "");
  ASSERT_EQ(record.runs.size(), 2u);
  EXPECT_EQ(record.runs.back().unfinished, record.incomplete);
}

TEST_F(LostRankTest, no_stopped_rank_outlives_a_killed_parent) {
  test::Program program(command());
  wait_until_training(program);
  for (const int rank : {0, 1}) ::kill(rank_process(program, "LOCKSTEP_RANK", rank), SIGSTOP);
  program.signal(SIGKILL);
  EXPECT_EQ(program.wait(), 128 + SIGKILL);
  EXPECT_TRUE(program.nothing_left_behind());
}

TEST_F(LostRankTest, ctrl_c_ends_all_and_keeps_what_was_measured) {
  test::Program program(command());
  wait_until_training(program);
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(), 130);
  EXPECT_TRUE(program.nothing_left_behind());
  expect_kept("");
  EXPECT_NE(results::read_record(folder_.path("a.json")).incomplete, "");
}

TEST_F(LostRankTest, a_killed_rank_under_mpirun_is_named) {
  for (const int rank : {1, 0}) {
    test::Program program(command_under_mpirun());
    wait_until_training(program);
    ::kill(rank_process(program, "OMPI_COMM_WORLD_RANK", rank), SIGKILL);
    EXPECT_NE(program.wait(), 0);
    EXPECT_THAT(program.error(), HasSubstr("rank " + std::to_string(rank) + " (host "));
    EXPECT_THAT(program.error(), HasSubstr("after step "));
    EXPECT_TRUE(program.nothing_left_behind());
    expect_kept("rank " + std::to_string(rank));
    std::filesystem::remove(folder_.path("a.json"));
  }
}

TEST_F(LostRankTest, a_killed_rank_of_the_mpi_backend_ends_with_1) {
  std::vector<std::string> all = command();
  all.insert(all.end(), {"--backend", "mpi"});
  test::Program program(all);
  wait_until_training(program);
  ::kill(rank_process(program, "OMPI_COMM_WORLD_RANK", 1), SIGKILL);
  EXPECT_EQ(program.wait(), 1);
  EXPECT_THAT(program.error(), HasSubstr("rank 1 (host "));
  EXPECT_TRUE(program.nothing_left_behind());
  expect_kept("rank 1");
}

}  // namespace
}  // namespace lockstep
