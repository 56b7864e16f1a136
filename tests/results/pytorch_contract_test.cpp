#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/results/files/record_json.h"
#include "lockstep/results/record/baseline.h"

#include "results/sample_runs.h"

// The work of diff.py of PyTorch's DDP benchmark on the two files that it is given.

namespace lockstep::results {
namespace {

using nlohmann::json;
using testing::ElementsAre;

json written(const RunRecord& record) {
  return json::parse(to_json(record));
}

TEST(PytorchContractTest, the_top_level_has_its_keys_with_its_types) {
  const json file = written(sweep_record());
  EXPECT_EQ(file.at("pytorch_version"), "2.11.0");
  EXPECT_TRUE(file.at("cuda_version").is_null());
  EXPECT_EQ(file.at("distributed_backend"), "gloo");
  EXPECT_TRUE(file.at("bucket_size").is_number_integer());
  EXPECT_EQ(file.at("bucket_size"), 25);
  EXPECT_EQ(file.size(), 6u) << "these, benchmark_results and lockstep";
  RunRecord record = sweep_record();
  record.cuda_version = "13.0";
  record.bucket_size_mb = 0.5;
  EXPECT_EQ(written(record).at("cuda_version"), "13.0");
  EXPECT_EQ(written(record).at("bucket_size"), 0.5);
}

TEST(PytorchContractTest, percentiles_of_every_result_but_the_first_can_be_taken_and_divided_by) {
  const json file = written(sweep_record());
  ASSERT_EQ(file.at("benchmark_results").size(), 2u);
  for (const json& benchmark : file.at("benchmark_results")) {
    EXPECT_TRUE(benchmark.at("model").is_string());
    EXPECT_TRUE(benchmark.at("batch_size").is_number_integer());
    ASSERT_GE(benchmark.at("result").size(), 2u);
    for (const json& result : benchmark.at("result")) {
      ASSERT_TRUE(result.at("ranks").is_array());
      for (size_t i = 0; i < result["ranks"].size(); ++i) EXPECT_EQ(result["ranks"][i], i);
      ASSERT_FALSE(result.at("measurements").empty());
      for (const json& measurement : result["measurements"]) {
        ASSERT_TRUE(measurement.is_number_float());
        EXPECT_GT(measurement, 0);
      }
    }
  }
}

TEST(PytorchContractTest, the_first_result_is_without_ddp_and_the_others_ascend_in_ranks) {
  RunRecord record = sweep_record();
  std::swap(record.runs[1], record.runs[3]);
  const json results = written(record)["benchmark_results"][0]["result"];
  ASSERT_EQ(results.size(), 4u) << "no controls but the first";
  EXPECT_EQ(results[0]["ranks"], json({0}));
  EXPECT_EQ(results[0]["measurements"], json(per_step_maxima(record.runs[0].samples)));
  EXPECT_EQ(results[1]["ranks"].size(), 1u);
  EXPECT_EQ(results[2]["ranks"].size(), 2u);
  EXPECT_EQ(results[3]["ranks"].size(), 4u);
}

TEST(PytorchContractTest, measurements_are_the_maxima_over_ranks_one_per_step) {
  RunRecord record = described_record();
  record.runs = {plain_run("single", 1), plain_run("ddp", 2)};
  record.runs[0].samples = {{1}, {2}};
  record.runs[1].samples = {{1, 3}, {5, 4}, {2, 2}};
  const json results = written(record)["benchmark_results"][0]["result"];
  EXPECT_EQ(results[1]["measurements"], json({3.0, 5.0, 2.0}));
}

TEST(PytorchContractTest, without_a_no_ddp_run_its_place_is_held) {
  RunRecord record = described_record();
  record.runs = {measured_run("ddp", 2, 4, 0.5), plain_run("ddp", 4)};
  const json results = written(record)["benchmark_results"][0]["result"];
  ASSERT_EQ(results.size(), 2u) << "nothing can be taken of a run without steps";
  EXPECT_TRUE(results[0]["measurements"].empty());
  EXPECT_EQ(results[1]["measurements"].size(), 4u);
}

TEST(PytorchContractTest, only_the_first_of_every_swept_setting_is_there) {
  RunRecord record = described_record();
  record.strategies = {"ddp", "other"};
  const auto add = [&](const char* strategy, int ranks, const char* precision, double bucket_mb,
                       const char* kernels = "fused") {
    auto run = measured_run(strategy, ranks, 4, 0.5);
    run.precision = precision;
    run.kernels = kernels;
    run.bucket_mb = bucket_mb;
    run.images_per_s = 1;
    record.runs.push_back(run);
  };
  add("single", 1, "bf16", 25);
  add("single", 1, "fp32", 25);
  record.runs[1].samples = {{0.25}};
  add("other", 2, "fp32", 25);
  add("ddp", 2, "fp32", 25);
  add("ddp", 2, "fp32", 1);
  add("ddp", 2, "fp32", 25, "aten");
  add("independent", 2, "fp32", 25);
  add("ddp", 2, "bf16", 25);
  add("ddp", 4, "fp32", 25);
  const json benchmarks = written(record)["benchmark_results"];
  ASSERT_EQ(benchmarks.size(), 1u);
  std::vector<size_t> ranks;
  for (const json& result : benchmarks[0]["result"]) ranks.push_back(result["ranks"].size());
  EXPECT_THAT(ranks, ElementsAre(1, 2, 4));
  EXPECT_EQ(benchmarks[0]["result"][0]["measurements"], json({0.25})) << "the baseline of the same precision";
  EXPECT_EQ(written(record)["lockstep"]["runs"].size(), 9u);
}

TEST(PytorchContractTest, every_network_is_shown_with_the_kernels_of_the_first) {
  RunRecord record = described_record();
  record.runs = {measured_run("ddp", 2, 4, 0.5), measured_run("ddp", 2, 4, 0.25),
                 measured_run("ddp", 2, 4, 0.125)};
  for (size_t i : {1U, 2U}) record.runs[i].model = "resnet18";
  record.runs[1].kernels = "aten";
  const json results = written(record)["benchmark_results"][1]["result"];
  ASSERT_EQ(results.size(), 2u);
  EXPECT_LT(results[1]["measurements"][0], 0.2) << "aten's";
}

}  // namespace
}  // namespace lockstep::results
