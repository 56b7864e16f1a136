#include <fstream>
#include <functional>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/in_process.h"
#include "golden/golden.h"
#include "predict_job.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kMeasured = std::string(LOCKSTEP_GOLDEN) + "/record.json";

test::Finished predict(std::vector<std::string> words) {
  words.insert(words.begin(), {"lockstep", "predict"});
  return test::run_here(words);
}

/// A command with the golden record after a change.
test::Finished run_changed(const char* command, const std::function<void(nlohmann::json&)>& change,
                           std::vector<std::string> words = {}) {
  std::ifstream file(kMeasured);
  nlohmann::json record = nlohmann::json::parse(file);
  change(record["lockstep"]["runs"]);
  const test::ScratchFolder folder;
  std::ofstream(folder.path("changed.json")) << record.dump();
  words.insert(words.begin(), {"lockstep", command, folder.path("changed.json")});
  return test::run_here(words);
}

test::Finished predict_changed(const std::function<void(nlohmann::json&)>& change,
                               std::vector<std::string> words) {
  return run_changed("predict", change, std::move(words));
}

TEST(PredictTest, tables_of_a_job_are_as_before) {
  const test::Finished finished =
      predict({kMeasured, "--ranks", "1,2,8,1024", "--per-host", "8", "--network", "25gbit,20us", "--what-if",
               "bandwidth=2x,latency=0,bucket=10,strategy=sharded,wire=bf16,no-straggler,batch=64,compute=2x",
               "--simulate", "64", "--slow-rank", "1.3x"});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  testing_golden::expect_golden("predict_job.txt", finished.output);
}

TEST(PredictTest, strong_scaling_has_a_column_of_batches) {
  const test::Finished finished =
      predict({"--ranks", "2,8", kMeasured, "--global-batch", "16", "--markdown"});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  testing_golden::expect_golden("predict_strong.md", finished.output);
}

TEST(PredictTest, a_table_of_collectives_predicts_published_curves_from_one_count) {
  // From their own folder: the length of a path decides where a sentence wraps.
  const test::WorkingFolder here(LOCKSTEP_SOURCE_DIR "/data/published/sources");
  test::Finished finished =
      predict({"--curves", "oci.csv", "--known-up-to", "8", "--collectives", "collectives_oci.csv"});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  testing_golden::expect_golden("predict_curves.txt", finished.output);
  finished = predict({"--curves", "curves.csv", "--network", "25gbit,20us"});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.error, AllOf(HasSubstr("of 390 curves left out"), HasSubstr("column parameters")));
}

TEST(PredictTest, predicted_gains_stand_beside_measured_ones) {
  using cli::VerifiedChange;
  cli::Verification verification{.predicted_images_per_s = 101, .images_per_s = 100, .rounds = 2};
  const VerifiedChange faster{.change = "batch=64",
                              .predicted_gain = 0.2,
                              .gain = 0.23,
                              .gain_interval = measure::Interval{0.2, 0.26},
                              .images_per_s = 123};
  const VerifiedChange slower{
      .change = "bucket=1", .predicted_gain = 0.02, .gain = -0.04, .images_per_s = 96};
  const VerifiedChange equal{
      .change = "wire=bf16", .predicted_gain = 0.004, .gain = -0.009, .images_per_s = 99};
  EXPECT_TRUE(cli::has_right_sign(faster) && cli::is_met(faster));
  EXPECT_FALSE(cli::has_right_sign(slower) || cli::is_met(slower));
  EXPECT_TRUE(cli::has_right_sign(equal));
  verification.changes = {faster,
                          slower,
                          equal,
                          {.change = "compute=2x", .predicted_gain = 0.5, .missing = "cannot run here: why"}};
  verification.interrupted_by = 2;
  testing_golden::expect_golden("predict_verify.md",
                                results::to_text(cli::document_of(verification), {.markdown = true}));
}

TEST(PredictTest, a_change_of_ranks_fills_the_host_that_they_share) {
  const test::Finished finished = predict(
      {kMeasured, "--ranks", "1", "--per-host", "4", "--what-if", "ranks=2,ranks=4,ranks=8", "--json"});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  const nlohmann::json effects = nlohmann::json::parse(finished.output)["jobs"][0]["what_if"];
  ASSERT_EQ(effects.size(), 3u);
  for (const nlohmann::json& effect : effects) {
    const nlohmann::json& prediction = effect["prediction"];
    EXPECT_EQ(effect["change"], "ranks=" + std::to_string(prediction["ranks"].get<int>()));
    EXPECT_EQ(prediction["hosts"], prediction["ranks"] == 8 ? 2 : 1);
  }
  EXPECT_EQ(predict({kMeasured, "--what-if", "ranks=1.5"}).exit_code, 2);
}

TEST(PredictTest, json_has_every_number_of_ranks_and_change) {
  const test::Finished finished =
      predict({kMeasured, "--ranks", "2,64", "--what-if", "--simulate", "4", "--steps", "7", "--json"});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  const nlohmann::json job = nlohmann::json::parse(finished.output)["jobs"][0];
  EXPECT_EQ(job["strategy"], "ddp");
  ASSERT_EQ(job["predictions"].size(), 2u);
  for (const nlohmann::json& row : job["predictions"]) {
    double product = 1;
    for (const auto& factor : row["factors"]) product *= factor.get<double>();
    EXPECT_NEAR(product, row["efficiency"].get<double>(), 1e-9);
    EXPECT_LE(row["low"], row["images_per_s"]);
    EXPECT_GE(row["high"], row["images_per_s"]);
  }
  EXPECT_GE(job["what_if"].size(), 8u);
  EXPECT_EQ(job["simulation"]["step_s"].size(), 7u);
}

TEST(PredictTest, every_strategy_can_be_asked_for) {
  const std::string list = test::run_here({"lockstep", "info", "strategies"}).output;
  const std::regex line(R"(\n  ([a-z_]+) )");
  int asked = 0;
  for (std::sregex_iterator name(list.begin(), list.end(), line), end; name != end; ++name) {
    const std::string strategy = (*name)[1];
    const bool alone = strategy == "single" || strategy == "independent";
    EXPECT_EQ(predict({kMeasured, "--what-if", "strategy=" + strategy}).exit_code, alone ? 2 : 0) << strategy;
    ++asked;
  }
  EXPECT_GE(asked, 9);
}

TEST(PredictTest, a_change_is_offered_where_bench_takes_its_flag) {
  for (const char* strategy : {"ddp", "replicated", "sharded", "parameter_server", "bsp", "horovod"}) {
    const test::Finished finished = predict_changed(
        [&](nlohmann::json& runs) { runs[1]["strategy"] = strategy; }, {"--what-if", "--json"});
    ASSERT_EQ(finished.exit_code, 0) << finished.error;
    const bool offered = finished.output.find("wire=bf16") != std::string::npos;
    const int bench = test::run_here({"lockstep", "bench", "--model", "lenet5", "--strategy", strategy,
                                      "--ranks", "2", "--wire", "bf16", "--dry-run"})
                          .exit_code;
    EXPECT_EQ(bench, offered ? 0 : 2) << strategy;
  }
}

TEST(PredictTest, costs_that_do_not_depend_on_bytes_leave_the_bandwidth_open) {
  const auto flat = [](nlohmann::json& runs) {
    for (nlohmann::json& rank : runs[1]["breakdown"]["ranks"]) {
      for (nlohmann::json& bucket : rank["buckets"])
        bucket["ended_s"] = bucket["all_arrived_s"].get<double>() + 1e-3;
      rank["buckets"][0]["bytes"] = 8;
    }
  };
  const test::Finished finished = predict_changed(flat, {"--ranks", "4096"});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.output, Not(HasSubstr(" inf ")));
  EXPECT_THAT(predict_changed(flat, {"--what-if", "bandwidth=25gbit"}).error,
              HasSubstr("do not tell the present bandwidth"));
}

TEST(PredictTest, what_is_missing_is_said_with_the_command_that_gives_it) {
  const auto refusal = [](const std::function<void(nlohmann::json&)>& change) {
    const test::Finished finished = predict_changed(change, {});
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    return finished.error;
  };
  EXPECT_THAT(refusal([](nlohmann::json& runs) {
                for (nlohmann::json& run : runs) run["breakdown"] = nullptr;
              }),
              AllOf(HasSubstr("has no breakdown of resnet50"), HasSubstr("lockstep bench --model resnet50")));
  const auto two_networks = [](nlohmann::json& runs) {
    runs.push_back(runs[1]);
    runs.back()["model"] = "alexnet";
  };
  EXPECT_THAT(refusal(two_networks),
              AllOf(HasSubstr("several networks: alexnet, resnet50"), HasSubstr("--model")));
  EXPECT_EQ(predict_changed(two_networks, {"--model", "resnet50"}).exit_code, 0);
  EXPECT_THAT(refusal([](nlohmann::json& runs) { runs[1]["breakdown"]["phases"]["step_s"] = 0; }),
              HasSubstr("no step time that is a number above 0"));
  const auto one_rank = [](nlohmann::json& runs) {
    nlohmann::json& run = runs[1];
    run["ranks"] = 1;
    run["breakdown"]["ranks"].erase(1);
    run["breakdown"].erase("straggler");
    for (const char* samples : {"samples", "warmup_samples"}) {
      for (nlohmann::json& step : run[samples]) step.erase(1);
    }
    run["resources"] = nullptr;
  };
  EXPECT_THAT(refusal(one_rank), AllOf(HasSubstr("one rank only, so the cost of collectives is not known"),
                                       HasSubstr("--network")));
  EXPECT_EQ(predict_changed(one_rank, {"--network", "10gbit,20us"}).exit_code, 0);
}

TEST(OutlookTest, what_would_help_a_measured_job_is_shown_with_it) {
  const test::Finished shown = test::run_here({"lockstep", "show", kMeasured});
  EXPECT_EQ(shown.exit_code, 0) << shown.error;
  const size_t begin = shown.output.find("What would help"),
               end = shown.output.find("The WARNING at the top");
  ASSERT_LT(begin, end);
  testing_golden::expect_golden("show_help.txt", shown.output.substr(begin, end - begin));
  EXPECT_THAT(test::run_here({"lockstep", "show", kMeasured, "--style", "ddp"}).output,
              Not(HasSubstr("What would help")));
}

TEST(OutlookTest, rows_of_one_number_of_ranks_and_of_further_batches_are_no_obstacle) {
  const auto repeated = [](nlohmann::json& runs) {
    runs.push_back(runs[1]);
    runs.back()["hosts"] = 2;
    runs.back()["images_per_s"] = 0.8 * runs[1]["images_per_s"].get<double>();
  };
  const auto two_batches = [](nlohmann::json& runs) {
    runs.push_back(runs[1]);
    runs.back()["batch_per_rank"] = 16;
  };
  for (const std::function<void(nlohmann::json&)>& change :
       std::vector<std::function<void(nlohmann::json&)>>{repeated, two_batches}) {
    const test::Finished shown = run_changed("show", change);
    EXPECT_EQ(shown.exit_code, 0) << shown.error;
    EXPECT_THAT(shown.output, AllOf(HasSubstr("Changes by their gain"), Not(HasSubstr("Not known"))));
  }
  EXPECT_EQ(predict_changed(repeated, {}).exit_code, 0);
  EXPECT_THAT(predict_changed(two_batches, {}).error, HasSubstr("several batches per rank: 8, 16"));
}

TEST(OutlookTest, a_report_goes_on_to_eight_times_the_measured_ranks) {
  const test::Finished page = test::run_here({"lockstep", "report", kMeasured, "-o", "-"});
  EXPECT_EQ(page.exit_code, 0) << page.error;
  EXPECT_THAT(page.output,
              AllOf(HasSubstr("4 ranks, predicted: "), HasSubstr("8 ranks, predicted: "),
                    HasSubstr("16 ranks, predicted: "), Not(HasSubstr("32 ranks, predicted: "))));
  const size_t begin = page.output.find("<h2>What would help"), end = page.output.find("</section>", begin);
  ASSERT_LT(begin, end);
  testing_golden::expect_golden("report_help.html", page.output.substr(begin, end - begin));
  const auto strong = [](nlohmann::json& runs) {
    for (nlohmann::json& run : runs) run["global_batch"] = 8;
    for (nlohmann::json& run : runs) run["batch_per_rank"] = 8 / run["ranks"].get<int>();
  };
  EXPECT_THAT(run_changed("report", strong, {"-o", "-"}).output,
              AllOf(HasSubstr("8 ranks, predicted: "), Not(HasSubstr("16 ranks, predicted: "))));
}

TEST(OutlookTest, where_nothing_can_be_predicted_a_report_is_as_it_was) {
  const auto without = [](nlohmann::json& runs) {
    for (nlohmann::json& run : runs) run["breakdown"] = nullptr;
  };
  const auto refused = [](nlohmann::json& runs) { runs[1]["strategy_options"] = "--hierarchical"; };
  for (const char* command : {"show", "report"}) {
    std::vector<std::string> words;
    if (command == std::string("report")) words = {"-o", "-"};
    const test::Finished silent = run_changed(command, without, words);
    EXPECT_EQ(silent.exit_code, 0) << silent.error;
    EXPECT_THAT(silent.output, AllOf(Not(HasSubstr("What would help")), Not(HasSubstr("predicted"))));
    const test::Finished told = run_changed(command, refused, words);
    EXPECT_EQ(told.exit_code, 0) << told.error;
    EXPECT_THAT(told.output, AllOf(HasSubstr("What would help"), HasSubstr("--hierarchical has no model"),
                                   Not(HasSubstr("predicted: "))));
  }
}

}  // namespace
}  // namespace lockstep
