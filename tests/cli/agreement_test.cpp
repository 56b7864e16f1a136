#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/program.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Command = std::vector<std::string>;

/// Two ranks with arguments of their own, as two contexts of one mpirun.
test::Finished mpirun(const Command& first, const Command& second) {
  Command command{"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "1", LOCKSTEP_PROGRAM};
  command.insert(command.end(), first.begin(), first.end());
  command.insert(command.end(), {":", "-np", "1", LOCKSTEP_PROGRAM});
  command.insert(command.end(), second.begin(), second.end());
  return test::run(command);
}

Command disagreeing_bench(const Command& more) {
  Command command{"bench", "--batch", "4", "--steps",   "3", "--warmup",
                  "1",     "--ranks", "2", "--threads", "1", "--no-controls"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

struct Odd {
  Command first;
  Command second;
  std::string text;
};

TEST(AgreementProgramTest, ranks_of_one_mpirun_with_other_arguments_are_refused_before_they_could_hang) {
  const std::vector<Odd> cases{
      {{"--model", "lenet5", "--seed", "1"},
       {"--model", "lenet5", "--seed", "2"},
       "rank 1 has seed 2, rank 0 has seed 1"},
      {{"--model", "lenet5"}, {"--model", "mlp"}, "rank 1 has network mlp, rank 0 has network lenet5"},
      {{"--model", "lenet5"},
       {"--model", "lenet5", "--backend", "mpi"},
       "rank 1 has --backend mpi, rank 0 has --backend gloo"},
      {{"--model", "lenet5"},
       {"--model", "lenet5", "--breakdown"},
       "rank 1 has --breakdown on, rank 0 has --breakdown off"},
      {{"--model", "lenet5", "--strategy", "replicated"},
       {"--model", "lenet5", "--strategy", "replicated", "--overlap", "off"},
       "rank 1 has --overlap off, rank 0 has --overlap on"},
  };
  for (const Odd& odd : cases) {
    const test::Finished finished = mpirun(disagreeing_bench(odd.first), disagreeing_bench(odd.second));
    EXPECT_EQ(finished.exit_code, 2) << odd.text << finished.error;
    EXPECT_THAT(finished.error, AllOf(HasSubstr("the ranks were not started alike"), HasSubstr(odd.text),
                                      HasSubstr("Give every rank the same flags")));
    EXPECT_THAT(finished.output, Not(HasSubstr("Benchmark"))) << odd.text;
  }
}

TEST(AgreementProgramTest, so_are_those_of_two_commands) {
  const test::Finished finished = mpirun(disagreeing_bench({"--model", "lenet5"}),
                                         {"verify", "--model", "lenet5", "--ranks", "2", "--threads", "1"});
  EXPECT_EQ(finished.exit_code, 2) << finished.error;
  EXPECT_THAT(finished.error, HasSubstr("rank 1 has command verify, rank 0 has command bench"));
}

TEST(AgreementProgramTest, ranks_with_torchruns_variables_are_each_told) {
  test::Program::Environment environment{{"WORLD_SIZE", "2"},
                                         {"LOCAL_WORLD_SIZE", "2"},
                                         {"MASTER_ADDR", "127.0.0.1"},
                                         {"MASTER_PORT", std::to_string(20000 + ::getpid() % 10000)}};
  Command second = disagreeing_bench({"--model", "lenet5", "--lr", "0.5"});
  Command first = disagreeing_bench({"--model", "lenet5"});
  first.insert(first.begin(), "lockstep");
  second.insert(second.begin(), "lockstep");
  environment["RANK"] = environment["LOCAL_RANK"] = "1";
  test::Program other(second, environment);
  environment["RANK"] = environment["LOCAL_RANK"] = "0";
  const test::Finished finished = test::run(first, environment);
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_THAT(finished.error, HasSubstr("rank 1 has learning rate 0.5, rank 0 has learning rate 0.01"));
  EXPECT_EQ(other.wait(), 2) << other.error();
}

}  // namespace
}  // namespace lockstep
