// Networks from files, through the program: tests/references/make_network.py makes those that are used
// here.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"

#include "cli/program.h"
#include "data/tensor_bytes.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

const std::string kConvolutions = LOCKSTEP_SOURCE_DIR "/tests/references/small.pt2";
const std::string kTokens = LOCKSTEP_SOURCE_DIR "/tests/references/tokens.pt2";
const std::string kRandom = LOCKSTEP_SOURCE_DIR "/tests/references/random.pt2";

test::Finished run_lockstep(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "lockstep");
  return test::run(arguments);
}

class VerifyNetworkFileTest : public testing::TestWithParam<std::string> {};

TEST_P(VerifyNetworkFileTest, all_strategies_keep_their_promises) {
  const test::Finished finished = run_lockstep(
      {"verify", "--model", GetParam(), "--backend", "thread", "--ranks", "1,2,3", "--threads", "1"});
  EXPECT_EQ(finished.exit_code, 0) << finished.output << finished.error;
  EXPECT_THAT(finished.output, HasSubstr("replicated"));
  EXPECT_THAT(finished.output, HasSubstr(" 0 wrong"));
}

TEST_P(VerifyNetworkFileTest, micro_batches_and_processes_make_no_difference) {
  const test::Finished finished =
      run_lockstep({"verify", "--model", GetParam(), "--backend", "gloo", "--ranks", "2", "--threads", "1",
                    "--strategy", "ddp,replicated", "--accumulate", "2"});
  EXPECT_EQ(finished.exit_code, 0) << finished.output << finished.error;
  EXPECT_THAT(finished.output, HasSubstr(" 0 wrong"));
}

INSTANTIATE_TEST_SUITE_P(all, VerifyNetworkFileTest, testing::Values(kConvolutions, kTokens, kRandom),
                         [](const auto& tested) {
                           return std::filesystem::path(tested.param).stem().string();
                         });

TEST(NetworkFileProgramTest, random_numbers_repeat_however_ranks_are_started) {
  for (const std::vector<std::string>& ranks :
       {std::vector<std::string>{"--backend", "mpi"}, {"--launch", "threads"}}) {
    std::vector<std::string> command{"verify", "--model", kRandom, "--ranks", "2", "--threads", "1"};
    command.insert(command.end(), ranks.begin(), ranks.end());
    const test::Finished finished = run_lockstep(command);
    EXPECT_EQ(finished.exit_code, 0) << finished.output << finished.error;
    EXPECT_THAT(finished.output, HasSubstr(" 0 wrong"));
  }
}

TEST(NetworkFileProgramTest, rates_count_the_files_unit) {
  const test::ScratchFolder folder;
  const std::string result = folder.path("result.json");
  const test::Finished finished =
      run_lockstep({"bench", "--model", kTokens, "--ranks", "1", "--threads", "1", "--backend", "thread",
                    "--steps", "10", "--warmup", "1", "--json", result});
  ASSERT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.output, HasSubstr("tokens/s"));
  const auto run = nlohmann::json::parse(read_file(result)).at("lockstep").at("runs").at(0);
  EXPECT_EQ(run.at("unit"), "token");
  EXPECT_EQ(run.at("kernels"), "aten");
  double all_s = 0;
  for (const auto& step : run.at("samples")) all_s += step.at(0).get<double>();
  // 2 sequences of 6 tokens in each of 10 steps.
  EXPECT_NEAR(run.at("images_per_s").get<double>() * all_s, 120, 1);
}

TEST(NetworkFileProgramTest, an_evaluation_is_refused_before_the_training) {
  const test::Finished finished =
      run_lockstep({"train", "--model", kTokens, "--ranks", "1", "--backend", "thread", "--eval"});
  EXPECT_EQ(finished.exit_code, 2) << finished.error;
  EXPECT_THAT(finished.error, HasSubstr("--eval needs a forward pass of its own"));
}

TEST(NetworkFileProgramTest, every_tensor_of_every_batch_is_exported) {
  const test::ScratchFolder folder;
  const test::Finished finished =
      run_lockstep({"verify", "--export", folder.path(""), "--model", kTokens, "--ranks", "1", "--threads",
                    "1", "--backend", "thread", "--strategy", "ddp", "--steps", "2", "--accumulate", "2"});
  ASSERT_EQ(finished.exit_code, 0) << finished.error;
  const std::string batches = read_file(folder.path("batches.0.safetensors"));
  for (const char* name : {"\"input0.0\"", "\"target0.0\"", "\"input0.3\"", "\"target0.3\""})
    EXPECT_THAT(batches, HasSubstr(name));
}

TEST(NetworkFileProgramTest, a_training_lowers_the_loss_and_continues_from_a_checkpoint) {
  const test::ScratchFolder folder;
  const std::string checkpoint = folder.path("checkpoint.safetensors");
  const std::vector<std::string> common{"train",     "--model", kConvolutions, "--ranks", "2",
                                        "--threads", "1",       "--backend",   "thread",  "--checkpoint",
                                        checkpoint,  "--lr",    "0.05"};
  std::vector<std::string> first = common, second = common;
  first.insert(first.end(), {"--epochs", "1"});
  second.insert(second.end(), {"--epochs", "2", "--resume", checkpoint});
  EXPECT_EQ(run_lockstep(first).exit_code, 0);
  // The content counts, not the path.
  const std::string moved = folder.path("moved.pt2");
  second[2] = moved;
  std::filesystem::copy_file(kRandom, moved);
  const test::Finished refused = run_lockstep(second);
  EXPECT_EQ(refused.exit_code, 2) << refused.error;
  EXPECT_THAT(refused.error, testing::ContainsRegex("of another training: .*network file #"));
  std::filesystem::copy_file(kConvolutions, moved, std::filesystem::copy_options::overwrite_existing);
  const test::Finished resumed = run_lockstep(second);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.error;
}

/// A folder with the inputs and targets of kTokens: `samples` sequences of six tokens, each `token`.
void write_tokens(const test::ScratchFolder& folder, int samples, int64_t token) {
  const std::string values = data::bytes_of(std::vector<int64_t>(static_cast<size_t>(samples) * 6, token));
  const std::string shape = std::to_string(samples) + ", 6";
  write_file_atomically(folder.path("input0.npy"), data::npy("<i8", shape, values));
  write_file_atomically(folder.path("target0.npy"), data::npy("<i8", shape, values));
}

TEST(NetworkFileProgramTest, tensors_from_a_folder_are_learned) {
  const test::ScratchFolder folder;
  write_tokens(folder, 64, 7);
  const std::string record = folder.path("training.json");
  const test::Finished finished =
      run_lockstep({"train", "--model", kTokens, "--ranks", "2", "--threads", "1", "--backend", "thread",
                    "--data", folder.path(""), "--epochs", "2", "--lr", "0.5", "--json", record});
  ASSERT_EQ(finished.exit_code, 0) << finished.error;
  const std::string text = read_file(record);
  EXPECT_THAT(text, HasSubstr("tensors, 64 samples"));
  const auto epochs = nlohmann::json::parse(text).at("epochs");
  // One token that always follows is soon known; random ones have a loss of log(40).
  EXPECT_LT(epochs.at(1).at("loss").get<double>(), 0.5) << finished.output;
}

TEST(NetworkFileProgramTest, images_may_come_as_tensors_too) {
  const test::ScratchFolder folder;
  write_file_atomically(folder.path("input0.npy"),
                        data::npy("<f4", "8, 3, 8, 8", std::string(8 * 768, '\0')));
  write_file_atomically(folder.path("target0.npy"), data::npy("<i8", "8,", std::string(64, '\0')));
  const std::string result = folder.path("result.json");
  const test::Finished finished = run_lockstep({"bench", "--model", kConvolutions, "--ranks", "1",
                                                "--threads", "1", "--backend", "thread", "--input", "dataset",
                                                "--data", folder.path(""), "--steps", "4", "--json", result});
  ASSERT_EQ(finished.exit_code, 0) << finished.error;
  const auto run = nlohmann::json::parse(read_file(result)).at("lockstep").at("runs").at(0);
  EXPECT_EQ(run.at("input_queues").at(0).at("name"), "read");
}

TEST(NetworkFileProgramTest, another_process_feeds_tensors) {
  const test::ScratchFolder folder;
  const std::string address = "ipc://" + folder.path("tokens");
  const std::string result = folder.path("result.json");
  test::Program feed(
      {"lockstep", "feed", "--address", address, "--ranks", "2", "--model", kTokens, "--timeout", "2"});
  const test::Finished finished =
      run_lockstep({"bench", "--model", kTokens, "--ranks", "2", "--threads", "1", "--steps", "20",
                    "--no-controls", "--input", "zmq", "--address", address, "--json", result});
  ASSERT_EQ(finished.exit_code, 0) << finished.error << feed.error();
  EXPECT_EQ(feed.wait(), 0) << feed.error();
  EXPECT_THAT(feed.output(), HasSubstr("batches of 2 samples"));
  const auto run = nlohmann::json::parse(read_file(result)).at("lockstep").at("runs").at(0);
  EXPECT_EQ(run.at("input_queues").at(0).at("name"), "received");
  EXPECT_GT(run.at("input_queues").at(0).at("images_per_s"), 0);
}

TEST(NetworkFileProgramTest, a_feeder_of_images_is_told_what_is_wanted) {
  const test::ScratchFolder folder;
  const std::string address = "ipc://" + folder.path("tokens");
  test::Program feed({"lockstep", "feed", "--address", address, "--image-size", "8", "--timeout", "2"});
  const test::Finished finished = run_lockstep({"bench", "--model", kTokens, "--ranks", "1", "--threads", "1",
                                                "--steps", "20", "--input", "zmq", "--address", address});
  EXPECT_EQ(finished.exit_code, 1) << finished.output;
  EXPECT_THAT(finished.error, HasSubstr("has content of type 1, expected 2 (tensors)"));
  feed.wait();
}

TEST(NetworkFileProgramTest, values_that_the_network_does_not_know_are_refused_by_name) {
  const test::ScratchFolder folder;
  write_tokens(folder, 64, 40);
  const test::Finished finished =
      run_lockstep({"bench", "--model", kTokens, "--ranks", "2", "--threads", "1", "--backend", "gloo",
                    "--input", "dataset", "--data", folder.path(""), "--steps", "4"});
  EXPECT_EQ(finished.exit_code, 1) << finished.output;
  EXPECT_THAT(finished.error, HasSubstr("input0 has values from 40 to 40, the file from 0 to 39"));
  EXPECT_THAT(finished.error, testing::Not(HasSubstr("std::")));
}

struct RefusedNetwork {
  std::vector<std::string> flags;
  std::string text;
};

TEST(NetworkFileProgramTest, impossible_wishes_are_refused) {
  const test::ScratchFolder folder;
  const std::string text = folder.path("text.pt2");
  write_file_atomically(text, "resnet50");
  const std::vector<RefusedNetwork> cases{
      {{"--model", "/nowhere/mine.pt2"}, "/nowhere/mine.pt2"},
      {{"--model", text}, "not a ZIP archive"},
      {{"--model", kTokens, "--batch", "3"}, "it has 2 in fp32"},
      {{"--model", kTokens, "--precision", "bf16"}, "it has 2 in fp32"},
      {{"--model", kTokens, "--image-size", "32"}, "--image-size is of no use"},
      {{"--model", kTokens, "--kernels", "fused"}, "--kernels fused"},
      {{"--model", kTokens, "--input", "host"}, "--input host"},
      {{"--model", kTokens, "--input", "dataset"}, "needs --data FOLDER"},
      {{"--model", kTokens, "--input", "dataset", "--data", LOCKSTEP_SOURCE_DIR "/data/digits"},
       "holds no tensors"},
  };
  for (const RefusedNetwork& one : cases) {
    std::vector<std::string> arguments{"bench"};
    arguments.insert(arguments.end(), one.flags.begin(), one.flags.end());
    const test::Finished finished = run_lockstep(arguments);
    EXPECT_EQ(finished.exit_code, 2) << one.text << finished.error;
    EXPECT_THAT(finished.error, HasSubstr(one.text));
  }
}

}  // namespace
}  // namespace lockstep
