#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

test::Finished dry_run(const std::string& preset, const std::vector<std::string>& more = {}) {
  std::vector<std::string> command{"lockstep", "bench", "--preset",  preset, "--dry-run",
                                   "--ranks",  "2",     "--threads", "1",    "--no-controls"};
  command.insert(command.end(), more.begin(), more.end());
  return test::run(command);
}

struct Case {
  std::string preset;
  /// Labels of the rows in the plan.
  std::vector<std::string> rows;
  std::string steps;
  /// Notes on the flags and on what they cannot reproduce.
  std::vector<std::string> notes;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"pytorch-throughput",
       {"resnet50 ddp 2 ranks x 32"},
       "5 + 495",
       {"--lr 0.1 --momentum 0.9 --weight-decay 1e-5"}},
      {"tensorpack-replicated",
       {"resnet50_v1 replicated 2 ranks x 64"},
       "50 + 450",
       {"averaged, not summed"}},
      {"tensorpack-parameter-server",
       {"resnet50_v1 parameter_server 2 ranks x 64"},
       "50 + 450",
       {"--parameter-owners rank0"}},
      {"tensorpack-horovod",
       {"resnet50_v1 horovod 2 ranks x 64"},
       "50 + 450",
       {"--cycle-ms 5 --fusion-mb 64"}},
      {"tensorpack-fp16-128",
       {"resnet50_v1 replicated 2 ranks x 128"},
       "50 + 450",
       {"--precision bf16", "not as there: bf16 (autocast) in place of fp16"}},
      {"tf-cnn-benchmarks",
       {"resnet50_v1 replicated 2 ranks x 64"},
       "10 + 100",
       {"--weight-decay 4e-5", "averaged, not summed"}},
      {"pytorch-ddp",
       {"resnet50 ddp 2 ranks x 32", "resnet101 ddp 2 ranks x 32", "resnext50_32x4d ddp 2 ranks x 32",
        "resnext101_32x8d ddp 2 ranks x 32"},
       "5 + 10",
       {"--bucket-mb 25"}},
      {"theano-mpi-googlenet-32b",
       {"googlenet_aux bsp 2 ranks x 32"},
       "auto + 160",
       {"--lr 0.005", "not as there: torchvision's network"}},
      {"theano-mpi-alexnet-128b", {"alexnet_caffe bsp 2 ranks x 128"}, "auto + 40", {"--exchange nccl32"}},
      {"theano-mpi-vgg16-16b", {"vgg16 bsp 2 ranks x 16"}, "auto + 320", {"--lr 0.002"}},
      {"theano-mpi-vgg16-32b", {"vgg16 bsp 2 ranks x 32"}, "auto + 160", {"--lr 0.002"}},
      {"theano-mpi-resnet50-64b", {"resnet50_v1 bsp 2 ranks x 64"}, "auto + 80", {"--lr 0.025"}},
  };
  return all;
}

class PresetTest : public testing::TestWithParam<Case> {};

TEST_P(PresetTest, plans_what_was_published) {
  const Case& expected = GetParam();
  // Small images, where the network takes them: the plan must fit into any machine's memory.
  const bool one_size = expected.preset == "theano-mpi-alexnet-128b";
  const test::Finished finished =
      dry_run(expected.preset,
              one_size ? std::vector<std::string>{} : std::vector<std::string>{"--image-size", "32"});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  for (const std::string& row : expected.rows) EXPECT_THAT(finished.output, HasSubstr(row + " "));
  EXPECT_EQ(test::occurrences(finished.output, " " + expected.steps + " "), expected.rows.size());
  EXPECT_THAT(finished.error, AllOf(HasSubstr("preset " + expected.preset + ": "), HasSubstr("stands for")));
  for (const std::string& note : expected.notes) EXPECT_THAT(finished.error, HasSubstr(note));
}

INSTANTIATE_TEST_SUITE_P(all, PresetTest, testing::ValuesIn(cases()), [](const auto& test) {
  std::string name = test.param.preset;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(PresetListTest, says_of_each_where_it_comes_from_and_what_it_stands_for) {
  const test::Finished info = test::run({"lockstep", "info", "presets"});
  EXPECT_EQ(info.exit_code, 0) << info.error;
  EXPECT_EQ(test::occurrences(info.output, "    source: "), cases().size());
  EXPECT_EQ(test::occurrences(info.output, "    stands for: --model "), cases().size());
  for (const Case& known : cases()) EXPECT_THAT(info.output, HasSubstr("\n  " + known.preset + "\n"));
}

TEST(PresetListTest, an_unknown_name_is_answered_with_the_nearest) {
  const test::Finished finished = dry_run("theano-mpi-vgg16-8b");
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_THAT(finished.error, AllOf(HasSubstr("unknown preset 'theano-mpi-vgg16-8b'"),
                                    HasSubstr("theano-mpi-vgg16-16b"), HasSubstr("lockstep info presets")));
}

TEST(PresetOverrideTest, a_flag_overrides_whatever_the_preset_says) {
  const test::Finished finished = dry_run(
      "theano-mpi-vgg16-32b", {"--model", "lenet5", "--batch", "4", "--steps", "7", "--exchange", "ar"});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.output, AllOf(HasSubstr("lenet5 bsp 2 ranks x 4 "), HasSubstr(" auto + 7 ")));
  EXPECT_THAT(finished.error,
              HasSubstr("replaced by your flags: --model vgg16 --batch 32 --exchange nccl32 --steps 160"));
}

TEST(PresetOverrideTest, so_does_a_flag_that_stands_in_for_another) {
  const test::Finished finished = dry_run(
      "tensorpack-replicated", {"--model", "lenet5", "--global-batch", "8", "--precision-target", "5%"});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.output,
              AllOf(HasSubstr("lenet5 replicated 2 ranks x 4 "), HasSubstr(" auto + auto ")));
}

TEST(PresetOverrideTest, another_strategy_leaves_out_flags_that_it_does_not_know) {
  const test::Finished finished =
      dry_run("tensorpack-horovod", {"--model", "lenet5", "--batch", "4", "--strategy", "ddp"});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.output, HasSubstr("lenet5 ddp 2 ranks x 4 "));
}

TEST(PresetRunTest, is_told_once_and_not_at_all_when_quiet) {
  const std::vector<std::string> command{"lockstep", "bench",   "--preset",  "pytorch-ddp", "--model",
                                         "lenet5",   "--batch", "4",         "--ranks",     "2",
                                         "--steps",  "3",       "--threads", "1",           "--no-controls"};
  const test::Finished told = test::run(command);
  EXPECT_EQ(told.exit_code, 0) << told.error;
  EXPECT_EQ(test::occurrences(told.error, "preset pytorch-ddp: "), 1u) << told.error;
  std::vector<std::string> quiet = command;
  quiet.emplace_back("--quiet");
  EXPECT_THAT(test::run(quiet).error, Not(HasSubstr("preset")));
}

}  // namespace
}  // namespace lockstep
