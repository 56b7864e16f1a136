#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"

#include "cli/killed_training.h"
#include "cli/program.h"

namespace lockstep {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

std::vector<std::string> quick(const std::vector<std::string>& more, int epochs = 3) {
  std::vector<std::string> command{
      "lockstep",  "train", "--model",   "lenet5", "--batch",  "4",
      "--lr",      "0.02",  "--ranks",   "2",      "--bind",   "none",
      "--threads", "1",     "--kernels", "fused",  "--epochs", std::to_string(epochs)};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

class TrainBackendTest : public testing::TestWithParam<const char*> {};

TEST_P(TrainBackendTest, every_epoch_is_told_and_recorded) {
  const test::ScratchFolder folder;
  const test::Finished train = test::run(
      quick({"--backend", GetParam(), "--eval", "--json", folder.path("a.json"), "--scale-lr", "--schedule",
             "step", "--decay-epochs", "2", "--checkpoint", folder.path("a.safetensors")}));
  ASSERT_EQ(train.exit_code, 0) << train.error;
  EXPECT_THAT(train.output, HasSubstr("epoch     steps        rate       loss"));
  EXPECT_THAT(train.output, ContainsRegex("\n    3        12       0.004 "));
  EXPECT_EQ(folder.files(), 2U);
  const auto record = nlohmann::json::parse(read_file(folder.path("a.json")));
  EXPECT_EQ(record["schema"], "lockstep training");
  EXPECT_EQ(record["backend"], GetParam());
  EXPECT_EQ(record["settings"]["strategy"], "ddp");
  EXPECT_EQ(record["settings"]["--kernels"], "fused");
  // How a row is measured is no setting of a training.
  for (const char* flag : {"--warmup", "--steps", "--min-time", "--max-time", "--precision-target"})
    EXPECT_FALSE(record["settings"].contains(flag)) << flag;
  EXPECT_THAT(record["kernel_detail"].get<std::string>(), testing::StartsWith("oneDNN 3."));
  EXPECT_EQ(record["incomplete"], "");
  ASSERT_EQ(record["epochs"].size(), 3U);
  const auto& last = record["epochs"][2];
  EXPECT_EQ(last["steps"], 12);
  EXPECT_DOUBLE_EQ(last["learning_rate"], 0.004);
  EXPECT_LT(last["loss"], record["epochs"][0]["loss"]);
  EXPECT_GE(last["evaluation_accuracy"], 0);
  EXPECT_GT(last["images_per_s"], 0);
  EXPECT_THAT(train.output, HasSubstr("parameters " + record["parameters_hash"].get<std::string>()));
}

INSTANTIATE_TEST_SUITE_P(all, TrainBackendTest, testing::Values("thread", "gloo", "mpi"));

TEST(TrainTest, a_checkpoint_keeps_the_kernels_that_were_chosen) {
  const test::ScratchFolder folder;
  const std::string checkpoint = folder.path("a.safetensors");
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command{
        "lockstep", "train",  "--model", "mlp",       "--batch", "4",      "--ranks",
        "2",        "--bind", "none",    "--threads", "1",       "--json", folder.path("a.json"),
        "--force"};
    command.insert(command.end(), more.begin(), more.end());
    return test::run(command);
  };
  const auto record = [&] { return nlohmann::json::parse(read_file(folder.path("a.json"))); };
  const test::Finished chosen = train({"--epochs", "1", "--checkpoint", checkpoint});
  ASSERT_EQ(chosen.exit_code, 0) << chosen.error;
  EXPECT_THAT(chosen.error, ContainsRegex("kernels of mlp, fp32, batch 4: (fused|aten), chosen over "));
  const auto trials = record()["kernel_trials"];
  ASSERT_EQ(trials.size(), 1U);
  const auto kernels = record()["settings"]["--kernels"].get<std::string>();
  EXPECT_EQ(trials[0]["kernels"], kernels);
  const test::Finished resumed = train({"--epochs", "2", "--resume", checkpoint});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.error;
  EXPECT_EQ(record()["settings"]["--kernels"], kernels);
  EXPECT_TRUE(record()["kernel_trials"].empty());
  const std::string other = kernels == "aten" ? "fused" : "aten";
  const test::Finished changed = train({"--epochs", "2", "--resume", checkpoint, "--kernels", other});
  EXPECT_EQ(changed.exit_code, 2);
  EXPECT_THAT(changed.error, HasSubstr("is of another training: --kernels"));
}

TEST(TrainTest, all_ranks_of_data_parallel_are_devices_of_one) {
  const test::Finished train = test::run(quick({"--strategy", "data_parallel", "--eval"}));
  EXPECT_EQ(train.exit_code, 0) << train.error;
  EXPECT_THAT(train.output, ContainsRegex("\n    3        12 "));
}

TEST(TrainTest, what_cannot_be_is_refused) {
  const auto refused = [](const std::vector<std::string>& more, const std::string& why) {
    const test::Finished train = test::run(quick(more));
    EXPECT_EQ(train.exit_code, 2) << train.error;
    EXPECT_THAT(train.error, HasSubstr(why));
  };
  refused({"--strategy", "independent"}, "independent combines nothing: 2 ranks would be 2 trainings");
  refused({"--schedule", "cosin"}, "--schedule takes constant, step or cosine, not 'cosin'");
  refused({"--checkpoint-every", "3"}, "--checkpoint-every has no effect without --checkpoint");
  refused({"--checkpoint", "/tmp/a.safetensors", "--checkpoint-every", "x"},
          "--checkpoint-every takes epoch, or a whole number from 1 to 1000000, not 'x'");
  refused({"--resume", "/nowhere.safetensors"}, "cannot read '/nowhere.safetensors'");
  refused({"--init", "/nowhere.safetensors"}, "cannot read '/nowhere.safetensors'");
  refused({"--data", "/nowhere"}, "there is no folder '/nowhere'");
  refused({"--input", "dataset"}, "needs --data FOLDER");
  refused({"--input", "device", "--data", "."}, "--data . is of no use to the input 'device'");
  refused({"--warmup-epochs", "9"}, "--warmup-epochs must lie between 0 and --epochs 3");
}

TEST(TrainTest, a_checkpoint_of_another_training_is_refused) {
  const test::ScratchFolder folder;
  ASSERT_EQ(test::run(quick({"--checkpoint", folder.path("a.safetensors")})).exit_code, 0);
  const test::Finished other =
      test::run(quick({"--resume", folder.path("a.safetensors"), "--strategy", "sharded"}));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.error,
              HasSubstr("a.safetensors' is of another training: strategy ddp there, sharded here"));
  const test::Finished further = test::run(quick({"--resume", folder.path("a.safetensors")}, 4));
  EXPECT_EQ(further.exit_code, 0) << further.error;
  EXPECT_THAT(further.error, HasSubstr("resuming after step 12"));
  EXPECT_THAT(further.output, ContainsRegex("\n    4        16 "));
  EXPECT_THAT(further.error, testing::Not(HasSubstr("rounded differently")));
  const test::Finished elsewhere =
      test::run(quick({"--resume", folder.path("a.safetensors"), "--backend", "mpi"}, 4));
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.error;
  EXPECT_EQ(test::occurrences(elsewhere.error, "rounded differently than before: backend gloo there, mpi"),
            1u);
}

// The digits, 1,500 to learn from and 297 others to evaluate with; bench/accuracy_table.py has every
// strategy.
TEST(TrainTest, real_images_are_learned) {
  const test::ScratchFolder folder;
  const test::Finished train = test::run({"lockstep",
                                          "train",
                                          "--model",
                                          "lenet5",
                                          "--data",
                                          LOCKSTEP_SOURCE_DIR "/data/digits",
                                          "--ranks",
                                          "2",
                                          "--threads",
                                          "1",
                                          "--bind",
                                          "none",
                                          "--batch",
                                          "16",
                                          "--lr",
                                          "0.02",
                                          "--epochs",
                                          "5",
                                          "--schedule",
                                          "cosine",
                                          "--eval",
                                          "--json",
                                          folder.path("a.json")});
  ASSERT_EQ(train.exit_code, 0) << train.error;
  const auto record = nlohmann::json::parse(read_file(folder.path("a.json")));
  EXPECT_THAT(record["settings"]["data"].get<std::string>(), testing::StartsWith("MNIST, 1500 samples"));
  ASSERT_EQ(record["epochs"].size(), 5U);
  EXPECT_EQ(record["epochs"][4]["steps"], 5 * (1500 / 32));
  EXPECT_GT(record["epochs"][4]["evaluation_accuracy"], 0.9);
}

// Names, shapes and sizes are those of torchvision's state_dict.
TEST(TrainTest, python_reads_a_checkpoint) {
  const test::ScratchFolder folder;
  const test::Finished train =
      test::run({"lockstep", "train", "--model", "resnet18", "--image-size", "32", "--batch", "2", "--ranks",
                 "2", "--backend", "thread", "--threads", "1", "--steps-per-epoch", "1", "--checkpoint",
                 folder.path("a.safetensors")});
  ASSERT_EQ(train.exit_code, 0) << train.error;
  const test::Finished python =
      test::run({"python3", LOCKSTEP_SOURCE_DIR "/tests/cli/read_checkpoint.py", folder.path("a.safetensors"),
                 LOCKSTEP_SOURCE_DIR "/tests/references/shapes/resnet18.txt"});
  EXPECT_EQ(python.exit_code, 0) << python.error;
  EXPECT_THAT(python.output, HasSubstr("122 tensors, step 1, 2 ranks"));
}

class KilledTrainingTest : public testing::TestWithParam<test::KilledTraining> {};

TEST_P(KilledTrainingTest, a_training_killed_and_resumed_ends_with_the_same_bits) {
  test::expect_same_bits_after_kills(GetParam());
}

INSTANTIATE_TEST_SUITE_P(all, KilledTrainingTest,
                         testing::Values(test::KilledTraining{
                             .strategy = "ddp", .kills = 3, .epochs = 8, .on_digits = true}),
                         test::name_of);

}  // namespace
}  // namespace lockstep
