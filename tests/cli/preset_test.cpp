#include <cstring>
#include <iterator>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/in_process.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

test::Finished dry_run(const std::string& preset, const std::vector<std::string>& more = {}) {
  std::vector<std::string> command{"lockstep", "bench", "--preset",  preset, "--dry-run",
                                   "--ranks",  "2",     "--threads", "1",    "--no-controls"};
  command.insert(command.end(), more.begin(), more.end());
  return test::run_here(command);
}

struct Case {
  const char* preset;
  const char* network;
  const char* strategy;
  /// Warm-up and measured steps.
  const char* steps;
  /// A flag of the preset's, or what it cannot reproduce.
  const char* note;
};

constexpr Case kCases[] = {
    {"pytorch-throughput", "--model resnet50 --batch 32", "ddp", "5 + 495",
     "--lr 0.1 --momentum 0.9 --weight-decay 1e-5"},
    {"tensorpack-replicated", "--model resnet50_v1 --batch 64", "replicated", "50 + 450",
     "averaged, not summed"},
    {"tensorpack-parameter-server", "--model resnet50_v1 --batch 64", "parameter_server", "50 + 450",
     "--parameter-owners rank0"},
    {"tensorpack-horovod", "--model resnet50_v1 --batch 64", "horovod", "50 + 450",
     "--cycle-ms 5 --fusion-mb 64"},
    {"tensorpack-fp16-128", "--model resnet50_v1 --batch 128", "replicated", "50 + 450",
     "not as there: bf16 (autocast) in place of fp16"},
    {"tf-cnn-benchmarks", "--model resnet50_v1 --batch 64", "replicated", "10 + 100", "--weight-decay 4e-5"},
    {"pytorch-ddp", "--model resnet50,resnet101,resnext50_32x4d,resnext101_32x8d --batch 32", "ddp", "5 + 10",
     "--bucket-mb 25"},
    {"theano-mpi-googlenet-32b", "--model googlenet_aux --batch 32", "bsp", "auto + 160",
     "not as there: torchvision's network"},
    {"theano-mpi-alexnet-128b", "--model alexnet_caffe --batch 128", "bsp", "auto + 40", "--exchange nccl32"},
    {"theano-mpi-vgg16-16b", "--model vgg16 --batch 16", "bsp", "auto + 320", "--lr 0.002"},
    {"theano-mpi-vgg16-32b", "--model vgg16 --batch 32", "bsp", "auto + 160", "--lr 0.002"},
    {"theano-mpi-resnet50-64b", "--model resnet50_v1 --batch 64", "bsp", "auto + 80", "--lr 0.025"},
};

TEST(PresetTest, plans_what_was_published) {
  const test::Finished info = test::run_here({"lockstep", "info", "presets"});
  EXPECT_EQ(info.exit_code, 0) << info.error;
  EXPECT_EQ(test::occurrences(info.output, "    stands for: --model "), std::size(kCases));
  for (const Case& expected : kCases) {
    SCOPED_TRACE(expected.preset);
    const size_t at = info.output.find(std::string("\n  ") + expected.preset + "\n    source: ");
    ASSERT_NE(at, std::string::npos);
    const size_t network = info.output.find("    stands for: ", at) + 16;
    EXPECT_EQ(info.output.compare(network, std::strlen(expected.network), expected.network), 0);

    // A small network in the preset's place: an estimate trains a step of it.
    const test::Finished plan = dry_run(expected.preset, {"--model", "lenet5", "--batch", "2"});
    EXPECT_EQ(plan.exit_code, 0) << plan.error;
    EXPECT_THAT(plan.output, HasSubstr(fmt::format("lenet5 {} 2 ranks x 2 ", expected.strategy)));
    EXPECT_THAT(plan.output, HasSubstr(fmt::format(" {} ", expected.steps)));
    EXPECT_THAT(plan.error,
                AllOf(HasSubstr(fmt::format("preset {}: ", expected.preset)), HasSubstr("stands for")));
    EXPECT_THAT(plan.error, HasSubstr(expected.note));
  }
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
