// Networks of a shared object, through the program: examples/own_network.cpp has the two that are used here.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"

#include "cli/program.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kConvnet = LOCKSTEP_OWN_NETWORK ":convnet";
const std::string kForecast = LOCKSTEP_OWN_NETWORK ":forecast";

test::Finished run_program(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "lockstep");
  return test::run(arguments);
}

TEST(PluginNetworkProgramTest, all_strategies_keep_their_promises) {
  const test::Finished finished = run_program(
      {"verify", "--model", kForecast, "--backend", "thread", "--ranks", "1,2,3", "--threads", "1"});
  EXPECT_EQ(finished.exit_code, 0) << finished.output << finished.error;
  EXPECT_THAT(finished.output, HasSubstr("replicated"));
  EXPECT_THAT(finished.output, HasSubstr(" 0 wrong"));
}

TEST(PluginNetworkProgramTest, rank_processes_open_it_too_and_agree) {
  for (const std::string& model : {kConvnet, kForecast}) {
    const test::Finished finished =
        run_program({"verify", "--model", model, "--backend", "gloo", "--ranks", "2", "--threads", "1",
                     "--strategy", "ddp,replicated", "--accumulate", "2"});
    EXPECT_EQ(finished.exit_code, 0) << finished.output << finished.error;
    EXPECT_THAT(finished.output, HasSubstr(" 0 wrong"));
  }
}

TEST(PluginNetworkProgramTest, a_bench_takes_any_batch_and_counts_the_plugins_unit) {
  const test::ScratchFolder folder;
  const std::string result = folder.path("result.json");
  const test::Finished finished = run_program(
      {"bench", "--model", kForecast, "--ranks", "1,2", "--threads", "1", "--backend", "gloo", "--batch", "3",
       "--precision", "fp32,bf16", "--steps", "10", "--warmup", "1", "--json", result});
  ASSERT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.output, HasSubstr("windows/s"));
  const auto runs = nlohmann::json::parse(read_file(result)).at("lockstep").at("runs");
  for (const auto& run : runs) {
    EXPECT_EQ(run.at("unit"), "window");
    EXPECT_EQ(run.at("kernels"), "aten");
    EXPECT_EQ(run.at("batch_per_rank"), 3);
    EXPECT_EQ(run.at("multiply_adds"), 24 * 3 * 36 * 32 + 32);
  }
}

TEST(PluginNetworkProgramTest, a_training_continues_from_a_checkpoint) {
  const test::ScratchFolder folder;
  const std::string checkpoint = folder.path("checkpoint.safetensors");
  std::vector<std::string> first{"train", "--model",      kConvnet,  "--batch",   "4",      "--ranks",
                                 "2",     "--threads",    "1",       "--backend", "thread", "--lr",
                                 "0.02",  "--checkpoint", checkpoint};
  std::vector<std::string> second = first;
  first.insert(first.end(), {"--epochs", "1"});
  second.insert(second.end(), {"--epochs", "2", "--resume", checkpoint});
  EXPECT_EQ(run_program(first).exit_code, 0);
  const test::Finished resumed = run_program(second);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.error;
}

struct RefusedWish {
  std::vector<std::string> flags;
  std::string text;
};

/// One square image and a label per sample: every input has batches for it.
TEST(PluginNetworkProgramTest, images_come_from_data_and_from_other_processes) {
  const test::Finished training =
      run_program({"train", "--model", kConvnet, "--data", LOCKSTEP_SOURCE_DIR "/data/digits", "--batch",
                   "32", "--epochs", "2", "--ranks", "2", "--threads", "1", "--backend", "gloo"});
  ASSERT_EQ(training.exit_code, 0) << training.error;
  EXPECT_THAT(training.output, AllOf(HasSubstr("    2        46        0.01"), Not(HasSubstr("0.00 %"))));

  const test::ScratchFolder folder;
  const std::string address = "ipc://" + folder.path("batches");
  test::Program feed({"lockstep", "feed", "--address", address, "--batch", "4", "--image-size", "32",
                      "--classes", "10", "--count", "12"});
  const test::Finished bench =
      run_program({"bench", "--model", kConvnet, "--batch", "4", "--ranks", "1", "--threads", "1", "--steps",
                   "10", "--warmup", "2", "--no-controls", "--input", "zmq", "--address", address});
  EXPECT_EQ(bench.exit_code, 0) << bench.error;
  EXPECT_EQ(feed.wait(), 0) << feed.error();
}

TEST(PluginNetworkProgramTest, impossible_wishes_are_refused) {
  const test::ScratchFolder folder;
  const std::string text = folder.path("text.so");
  write_file_atomically(text, "resnet50");
  const std::vector<RefusedWish> cases{
      {{"--model", "./nowhere.so:mine"}, "there is no file ./nowhere.so"},
      {{"--model", text + ":mine"}, "it cannot be loaded: "},
      {{"--model", LOCKSTEP_OWN_NETWORK}, "which of its networks is wanted? It has convnet, forecast"},
      {{"--model", kConvnet + "s"}, "it has no network 'convnets'; it has convnet, forecast"},
      {{"--model", kConvnet, "--image-size", "64"}, "--image-size is of no use"},
      {{"--model", kConvnet, "--kernels", "fused"}, "--kernels fused"},
      {{"--model", kForecast, "--input", "host"}, "--input host"},
  };
  for (const RefusedWish& one : cases) {
    std::vector<std::string> arguments{"bench"};
    arguments.insert(arguments.end(), one.flags.begin(), one.flags.end());
    const test::Finished finished = run_program(arguments);
    EXPECT_EQ(finished.exit_code, 2) << one.text << finished.error;
    EXPECT_THAT(finished.error, HasSubstr(one.text));
  }
}

}  // namespace
}  // namespace lockstep
