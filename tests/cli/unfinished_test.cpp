// Runs that are ended in the middle of their first row: the steps until then are kept.

#include <algorithm>
#include <csignal>
#include <fstream>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/results/files/record_json.h"

#include "cli/program.h"
#include "cli/row_steps.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

/// A bench whose only row would take an hour.
class UnfinishedRunTest : public testing::Test {
 protected:
  std::vector<std::string> command(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"lockstep",  "bench",   "--no-controls", "--model",   "lenet5",
                                 "--batch",   "1",       "--ranks",       "2",         "--warmup",
                                 "3",         "--steps", "900000",        "--threads", "1",
                                 "--timeout", "5",       "--json",        file()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  std::string file() const { return folder_.path("a.json"); }

  /// Waits until a process that keeps its record in memory has some steps in it.
  static void wait_for_memory(pid_t pid) {
    for (int waits = 0; waits < 6000; ++waits, ::usleep(20'000)) {
      std::error_code ended;
      for (const auto& entry :
           std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", ended)) {
        const std::string target = std::filesystem::read_symlink(entry.path(), ended);
        if (target.find("lockstep-record") != std::string::npos &&
            read_file(entry.path()).find("\"warmup_samples\"") != std::string::npos)
          return;
      }
    }
    ADD_FAILURE() << "no steps in memory";
  }

  /// The first row, unfinished, with at least `steps` steps.
  void expect_kept(const std::string& reason, size_t steps) const {
    const results::RunRecord record = results::read_record(file());
    ASSERT_EQ(record.runs.size(), 1U);
    EXPECT_THAT(record.incomplete, HasSubstr(reason));
    EXPECT_EQ(record.runs.front().unfinished, record.incomplete);
    EXPECT_GE(test::steps_in(file()), steps);
    EXPECT_FALSE(std::filesystem::exists(file() + ".partial"));
  }

  test::ScratchFolder folder_;
};

// No process is left to write anything.
TEST_F(UnfinishedRunTest, a_run_that_is_killed_as_a_whole_leaves_a_valid_file_with_its_steps) {
  for (const size_t looks : {1, 2, 4}) {
    test::Program program(command());
    size_t steps = 0;
    for (size_t i = 0; i < looks; ++i) steps = test::wait_for_steps(program, file(), steps);
    for (const pid_t process : program.descendants()) ::kill(process, SIGKILL);
    EXPECT_EQ(program.wait(), 128 + SIGKILL);
    ASSERT_TRUE(program.nothing_left_behind());
    expect_kept("the run has not ended, or ended without a word", steps);
    const test::Finished shown = test::run({"lockstep", "show", file()});
    EXPECT_EQ(shown.exit_code, 0);
    EXPECT_THAT(shown.output, HasSubstr("ddp (unfinished)"));
    EXPECT_THAT(shown.output, HasSubstr("It is unfinished: it ended after"));
    std::filesystem::remove(file());
  }
}

TEST_F(UnfinishedRunTest, a_lost_rank_leaves_the_steps_that_all_ranks_made) {
  for (const int rank : {1, 0}) {
    test::Program program(command());
    // Heartbeats have told of some steps by the second time.
    const size_t steps = test::wait_for_steps(program, file(), test::wait_for_steps(program, file(), 0));
    for (const pid_t process : program.descendants("LOCKSTEP_RANK", std::to_string(rank)))
      ::kill(process, SIGKILL);
    EXPECT_EQ(program.wait(), 1);
    expect_kept("was killed by SIGKILL after step ", steps);
    const results::RunRecord record = results::read_record(file());
    EXPECT_EQ(record.runs.front().samples.front().size(), 2U);
    std::smatch found;
    ASSERT_TRUE(std::regex_search(record.incomplete, found, std::regex("after step ([0-9]+) of")));
    // Rank 0 is there to write what the ranks made until the end.
    const size_t told = rank == 1 ? std::stoul(found[1]) : 1;
    EXPECT_GE(test::steps_in(file()) + 1, told);
    EXPECT_THAT(program.output(), HasSubstr("ddp (unfinished)"));
    EXPECT_THAT(program.error(), HasSubstr("what was measured is in " + file() + ", marked incomplete"));
    std::filesystem::remove(file());
  }
}

TEST_F(UnfinishedRunTest, signals_to_end_keep_the_steps) {
  for (const auto& [signal, reason] :
       {std::pair{SIGINT, "interrupted (Ctrl-C)"}, {SIGTERM, "told to end (SIGTERM)"}}) {
    for (const char* launch : {"processes", "threads"}) {
      std::vector<std::string> more{"--launch", launch};
      if (std::string(launch) == "threads") more.insert(more.end(), {"--backend", "thread"});
      test::Program program(command(more));
      const size_t steps = test::wait_for_steps(program, file(), 0);
      program.signal(signal);
      EXPECT_EQ(program.wait(), 128 + signal);
      expect_kept(reason, steps);
      EXPECT_THAT(program.output(), HasSubstr("ddp (unfinished)"));
      std::filesystem::remove(file());
    }
  }
}

TEST_F(UnfinishedRunTest, without_a_file_the_tables_have_the_steps) {
  std::vector<std::string> all = command();
  all.resize(all.size() - 2);
  for (const bool rank_0_dies : {false, true}) {
    test::Program program(all, {{"TMPDIR", folder_.path("")}});
    wait_for_memory(program.pid());
    EXPECT_EQ(folder_.files(), 0U);
    if (rank_0_dies) {
      for (const pid_t process : program.descendants("LOCKSTEP_RANK", "0")) ::kill(process, SIGKILL);
    } else {
      program.signal(SIGINT);
    }
    EXPECT_EQ(program.wait(), rank_0_dies ? 1 : 130);
    EXPECT_THAT(program.output(), HasSubstr("ddp (unfinished)"));
    EXPECT_EQ(folder_.files(), 0U);
  }
}

// Rank 1 prints, and reads the memory of a process that is gone.
TEST_F(UnfinishedRunTest, without_a_file_another_rank_tells_what_a_lost_rank_0_measured) {
  std::vector<std::string> all = command();
  all.resize(all.size() - 2);
  test::Program::Environment place{{"WORLD_SIZE", "2"},
                                   {"LOCAL_WORLD_SIZE", "2"},
                                   {"MASTER_ADDR", "127.0.0.1"},
                                   {"MASTER_PORT", std::to_string(20000 + ::getpid() % 10000)}};
  place["RANK"] = place["LOCAL_RANK"] = "1";
  test::Program second(all, place);
  place["RANK"] = place["LOCAL_RANK"] = "0";
  test::Program first(all, place);
  wait_for_memory(first.pid());
  // A start that fails takes nothing from the job that has the port.
  const test::Finished third = test::run(all, place);
  EXPECT_EQ(third.exit_code, 2) << third.error;
  EXPECT_THAT(third.error, HasSubstr("is in use"));
  first.signal(SIGKILL);
  EXPECT_EQ(second.wait(), 1);
  EXPECT_THAT(second.output(), HasSubstr("ddp (unfinished)"));
  EXPECT_THAT(second.error(), HasSubstr("rank 0 (host "));
}

TEST_F(UnfinishedRunTest, an_older_result_and_its_csv_stay) {
  const std::string older = read_file(std::string(LOCKSTEP_GOLDEN) + "/record.json");
  const std::string older_csv = read_file(std::string(LOCKSTEP_GOLDEN) + "/everything.csv");
  std::ofstream(file()) << older;
  std::ofstream(folder_.path("a.csv")) << older_csv;
  test::Program program(command({"--csv", folder_.path("a.csv"), "--trace", folder_.path("t.json")}));
  const size_t steps = test::wait_for_steps(program, file() + ".partial", 0);
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(), 130);
  EXPECT_EQ(read_file(file()), older);
  EXPECT_EQ(read_file(folder_.path("a.csv")), older_csv);
  EXPECT_GE(test::steps_in(file() + ".partial"), steps);
  EXPECT_THAT(program.error(),
              HasSubstr("a.json.partial, marked incomplete; " + file() + " is still that of an earlier run"));
  EXPECT_THAT(program.error(), HasSubstr("a.csv is still that of an earlier run"));
  EXPECT_THAT(program.error(), HasSubstr("no trace was written to " + folder_.path("t.json")));
}

// Launches before it are this run's own.
TEST_F(UnfinishedRunTest, a_later_launch_that_is_interrupted_keeps_the_launches_before_it) {
  const std::string older = read_file(std::string(LOCKSTEP_GOLDEN) + "/record.json");
  std::ofstream(file()) << older;
  std::vector<std::string> all = command({"--repeat", "20"});
  *(std::ranges::find(all, "900000")) = "60";
  test::Program program(all);
  ASSERT_TRUE(program.wait_for_error("launch 3 of 20"));
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(), 130);
  EXPECT_EQ(read_file(file()), older);
  const results::RunRecord record = results::read_record(file() + ".partial");
  ASSERT_GE(record.runs.size(), 1U);
  EXPECT_TRUE(record.runs.front().finished());
  EXPECT_GE(record.runs.front().launch_steps.size(), 2U);
}

}  // namespace
}  // namespace lockstep
