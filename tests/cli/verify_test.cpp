#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

class VerifyProgramTest : public testing::TestWithParam<const char*> {};

// Over threads tests/train/verify_test.cpp proves them.
TEST_P(VerifyProgramTest, all_strategies_keep_their_promises) {
  const test::Finished finished =
      test::run({"lockstep", "verify", "--backend", GetParam(), "--ranks", "1,2,3", "--threads", "1",
                 "--model", "lenet5", "--bucket-mb", "0.05"});
  EXPECT_EQ(finished.exit_code, 0) << finished.output << finished.error;
  EXPECT_THAT(finished.output, HasSubstr("replicated"));
  EXPECT_THAT(finished.output, HasSubstr(" 0 wrong"));
}

TEST_P(VerifyProgramTest, an_asynchronous_parameter_server_loses_nothing) {
  const test::Finished finished =
      test::run({"lockstep", "verify", "--backend", GetParam(), "--ranks", "1,2,3", "--threads", "1",
                 "--model", "mlp", "--strategy", "parameter_server", "--consistency", "async"});
  EXPECT_EQ(finished.exit_code, 0) << finished.output << finished.error;
  EXPECT_THAT(finished.output, HasSubstr("applied once"));
  EXPECT_THAT(finished.output, HasSubstr("12 right, 0 wrong"));
}

// The second one is for `make test-all`.
INSTANTIATE_TEST_SUITE_P(all, VerifyProgramTest, testing::Values("gloo", "mpi"));

TEST(VerifyProgramTest, what_does_not_apply_says_why) {
  const test::Finished finished =
      test::run({"lockstep", "verify", "--model", "resnet18", "--image-size", "32", "--batch", "2", "--steps",
                 "2", "--strategy", "ddp", "--ranks", "2", "--threads", "1"});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.output, HasSubstr("n/a      2 x 2 is not 1 x 4: batch norm takes its statistics"));
}

TEST(VerifyProgramTest, what_only_came_with_all_is_left_out) {
  const test::Finished finished =
      test::run({"lockstep", "verify", "--model", "mlp", "--steps", "2", "--ranks", "2", "--backend",
                 "thread", "--threads", "1", "--grad-clip", "0.05"});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.output, testing::ContainsRegex("bsp +2  all +n/a +--grad-clip limits combined"));
}

TEST(VerifyProgramTest, both_kernels_are_verified_and_told_apart) {
  const test::Finished finished = test::run({"lockstep", "verify", "--model", "resnet18", "--image-size",
                                             "32", "--batch", "2", "--steps", "2", "--strategy", "replicated",
                                             "--ranks", "2", "--threads", "1", "--kernels", "aten,fused"});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.output, testing::ContainsRegex("replicated +aten +2  replicas equal +right"));
  EXPECT_THAT(finished.output, testing::ContainsRegex("replicated +fused +2  replicas equal +right"));
  EXPECT_THAT(finished.output, testing::ContainsRegex("replicated +fused +2  run to run +right"));
}

TEST(VerifyProgramTest, an_export_replaces_no_file_without_force) {
  const test::ScratchFolder folder;
  std::ofstream(folder.path("final.safetensors")) << "trained for a week";
  std::vector<std::string> command{
      "lockstep", "verify", "--model",  "mlp",     "--strategy", "ddp",    "--ranks",  "1",
      "--steps",  "1",      "--launch", "threads", "--backend",  "thread", "--export", folder.path("")};
  const test::Finished refused = test::run(command);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.error, HasSubstr("final.safetensors' is there already, and would be lost"));
  EXPECT_EQ(folder.files(), 1U);
  command.emplace_back("--force");
  EXPECT_EQ(test::run(command).exit_code, 0);
  EXPECT_EQ(folder.files(), 3U);
}

TEST(VerifyProgramTest, ranks_of_a_launcher_refuse_with_one_voice) {
  const test::Finished finished = test::run({"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2",
                                             LOCKSTEP_PROGRAM, "verify", "--ranks", "2", "--steps", "0"});
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_EQ(test::occurrences(finished.error, "--steps takes a whole number from 1 to 1000, not '0'"), 1u)
      << finished.error;
}

}  // namespace
}  // namespace lockstep
