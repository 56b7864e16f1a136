#include <csignal>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace lockstep {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// A breakdown of a small network on one rank and two.
std::string measured(const test::ScratchFolder& folder,
                     const std::vector<std::string>& rows = {"--ranks", "1,2"}) {
  std::string path = folder.path("run.json");
  std::vector<std::string> command{"lockstep",    "bench",   "--model", "lenet5", "--batch",  "8",
                                   "--threads",   "1",       "--steps", "12",     "--warmup", "3",
                                   "--breakdown", "--quiet", "--json",  path};
  command.insert(command.end(), rows.begin(), rows.end());
  const test::Finished bench = test::run(command);
  EXPECT_EQ(bench.exit_code, 0) << bench.error;
  return path;
}

std::vector<std::string> verify(const std::string& path, const std::string& changes,
                                const std::vector<std::string>& more) {
  std::vector<std::string> words{"lockstep", "predict",  path,         "--what-if",
                                 changes,    "--verify", "--row-time", "0.5"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(PredictVerifyTest, measures_what_can_run_here_and_says_why_the_rest_cannot) {
  const test::ScratchFolder folder;
  const test::Finished finished = test::run(
      verify(measured(folder), "ranks=1,batch=64,wire=bf16,bucket=0.1,bandwidth=2x,compute=2x,ranks=4096",
             {"--rounds", "2", "--json"}));
  ASSERT_EQ(finished.exit_code, 0) << finished.error;
  const json verification = json::parse(finished.output)["jobs"][0]["verification"];
  EXPECT_EQ(verification["rounds"], 2);
  EXPECT_GT(verification["images_per_s"], 0);
  ASSERT_EQ(verification["changes"].size(), 7U);
  for (const json& change : verification["changes"]) {
    const std::string name = change["change"];
    if (name == "bandwidth=2x" || name == "compute=2x" || name == "ranks=4096") {
      EXPECT_THAT(change["missing"].get<std::string>(), StartsWith("cannot run here: ")) << name;
      EXPECT_TRUE(change["measured_gain"].is_null()) << name;
      continue;
    }
    EXPECT_EQ(change["missing"], "") << name;
    EXPECT_LE(change["low"], change["measured_gain"]) << name;
    EXPECT_GE(change["high"], change["measured_gain"]) << name;
    // Eight times the images of a step this small are a gain on any machine.
    if (name == "batch=64") {
      EXPECT_GT(change["measured_gain"], 0.1);
    }
  }
  EXPECT_THAT(finished.error, HasSubstr("launch 10 of 10: unchanged"));
}

TEST(PredictVerifyTest, a_network_that_is_not_at_hand_is_replayed) {
  const test::ScratchFolder folder;
  // A replay is of one row.
  const std::string path = measured(folder, {"--ranks", "2", "--no-controls"});
  std::ifstream file(path);
  json record = json::parse(file);
  for (json& run : record["lockstep"]["runs"]) run["model"] = "of_somebody";
  std::ofstream(path) << record.dump();
  const test::Finished finished =
      test::run(verify(path, "bucket=0.1,batch=2x", {"--rounds", "1", "--markdown"}));
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.error, HasSubstr("of_somebody is not at hand"));
  EXPECT_THAT(finished.output, AllOf(HasSubstr("Of 1 measured change"), HasSubstr("| batch=2x | - |"),
                                     HasSubstr("cannot run here: ")));
}

TEST(PredictVerifyTest, a_dry_run_says_what_would_be_launched_with_the_settings_of_the_row_on_one_host) {
  const test::ScratchFolder folder;
  const std::string path = measured(folder);
  const test::Finished dry =
      test::run(verify(path, "strategy=replicated,no-straggler", {"--dry-run", "--markdown"}));
  EXPECT_EQ(dry.exit_code, 0) << dry.error;
  EXPECT_THAT(dry.output, AllOf(HasSubstr("| none | lockstep bench --model lenet5"),
                                HasSubstr("--strategy replicated --ranks 2 --batch 8"),
                                HasSubstr("| no-straggler | cannot run here: ")));
  std::ifstream file(path);
  json record = json::parse(file);
  const auto launches_of = [&](double momentum, bool nesterov, double clip) {
    for (json& run : record["lockstep"]["runs"]) {
      run["momentum"] = momentum;
      run["weight_decay"] = 0;
      run["nesterov"] = nesterov;
      run["grad_clip"] = clip;
    }
    std::ofstream(path) << record.dump();
    const test::Finished finished = test::run(verify(path, "batch=16,ranks=4", {"--dry-run", "--markdown"}));
    EXPECT_EQ(finished.exit_code, 0) << finished.error;
    return finished.output;
  };
  EXPECT_THAT(launches_of(0, false, 1.5),
              AllOf(HasSubstr("--momentum 0 --weight-decay 0 --grad-clip 1.5"), Not(HasSubstr("--nesterov")),
                    HasSubstr("| ranks=4 | cannot run here: --verify has one host, and the job 2 |")));
  EXPECT_THAT(launches_of(0.9, true, 0), AllOf(HasSubstr("--momentum 0.9 --weight-decay 0"),
                                               HasSubstr("--nesterov"), Not(HasSubstr("--grad-clip"))));
}

TEST(PredictVerifyTest, a_signal_ends_it_and_shows_the_rounds_so_far) {
  const test::ScratchFolder folder;
  test::Program program(verify(measured(folder), "batch=64", {"--rounds", "1000"}));
  ASSERT_TRUE(program.wait_for_error("launch 4 of 2000")) << program.error();
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(), 130) << program.error();
  EXPECT_TRUE(program.nothing_left_behind());
  EXPECT_THAT(program.output(),
              AllOf(HasSubstr("in turn, ended by a signal"), HasSubstr("1 measured change")));
}

TEST(PredictVerifyTest, what_has_no_effect_is_refused) {
  const std::string record = std::string(LOCKSTEP_SOURCE_DIR) + "/tests/golden/record.json";
  const test::Finished network = test::run(verify(record, "batch=64", {"--network", "25gbit,20us"}));
  EXPECT_EQ(network.exit_code, 2);
  EXPECT_THAT(network.error, HasSubstr("not on that of --network"));
  const test::Finished dry = test::run({"lockstep", "predict", record, "--dry-run"});
  EXPECT_EQ(dry.exit_code, 2);
  EXPECT_THAT(dry.error, HasSubstr("without --verify"));
  const test::Finished many =
      test::run(verify(record, "batch=64", {"--ranks", "4096", "--per-host", "4096"}));
  EXPECT_EQ(many.exit_code, 2);
  EXPECT_THAT(many.error, HasSubstr("4,096 ranks share"));
}

}  // namespace
}  // namespace lockstep
