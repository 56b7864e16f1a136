#include <cmath>
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/results/files/system_json.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/launches.h"
#include "lockstep/results/tables/tables.h"

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string message(std::string_view text) {
  try {
    from_json(text, "a.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

/// The message for a good file after `change`.
std::string message_after(const std::function<void(json&)>& change) {
  json file = json::parse(to_json(small_record()));
  change(file);
  return message(file.dump());
}

TEST(JsonReaderTest, what_was_written_reads_back_and_writes_the_same_again) {
  RunRecord two_hosts = small_record();
  two_hosts.machines.push_back(two_hosts.machines[0]);
  two_hosts.machines[1].host = "node2";
  for (const RunRecord& record : {small_record(), sweep_record(), gpu_record(), two_hosts, RunRecord()}) {
    const std::string text = to_json(record);
    EXPECT_EQ(to_json(from_json(text, "a.json")), text);
    EXPECT_EQ(from_json(text, "a.json").machines.size(), record.machines.size());
  }
}

// A file from elsewhere must neither reach the terminal nor end a fence of Markdown.
TEST(JsonReaderTest, control_characters_of_a_text_are_replaced) {
  json file = json::parse(to_json(small_record()));
  file["lockstep"]["runs"][0]["model"] = "res\x1b[2Jnet\n```\n[link](x)";
  file["lockstep"]["machines"][0]["host"] = "a\tb\x07";
  const RunRecord record = from_json(file.dump(), "a.json");
  EXPECT_EQ(record.runs[0].model, "res\uFFFD[2Jnet ``` [link](x)");
  EXPECT_EQ(record.machines[0].host, "a b\uFFFD");
}

TEST(JsonReaderTest, a_file_of_schema_version_1_still_reads) {
  const RunRecord old = from_json(read_file(LOCKSTEP_GOLDEN "/record_schema_1.json"), "old.json");
  ASSERT_EQ(old.runs.size(), 3U);
  EXPECT_EQ(old.schema_version, 1);
  EXPECT_EQ(old.baseline_strategy, "single");
  EXPECT_EQ(old.runs[1].samples.size(), 4U);
  EXPECT_EQ(launches(old.runs[1]), 1);
  EXPECT_FALSE(old.runs[1].breakdown || old.runs[1].factors || old.runs[1].step_interval_s);
  EXPECT_TRUE(old.runs[1].speedup);
  EXPECT_EQ(old.runs[1].kernels, "aten") << "there were no others then";
  EXPECT_TRUE(old.kernels.empty());
  EXPECT_EQ(from_json(to_json(old), "new.json").schema_version, kSchemaVersion);
}

TEST(JsonReaderTest, what_explains_a_run_must_fit_it) {
  EXPECT_THAT(message_after([](json& file) { file["lockstep"]["runs"][1]["breakdown"]["ranks"].erase(0); }),
              HasSubstr("lockstep.runs[1].breakdown.ranks is a list of 1, expected one entry per rank, 2"));
  EXPECT_THAT(message_after([](json& file) { file["lockstep"]["runs"][1]["breakdown"]["straggler"] = 2; }),
              HasSubstr("expected a whole number from 0 to 1"));
  EXPECT_THAT(message_after([](json& file) {
                file["lockstep"]["runs"][1]["launch_steps"] = {3, 2};
              }),
              HasSubstr("expected counts that add up to the 4 steps of the samples"));
  EXPECT_THAT(message_after([](json& file) { file["lockstep"]["runs"][1]["factors"]["machine"] = 1; }),
              HasSubstr("lockstep.runs[1].factors.machine is 1, expected an object"));
}

TEST(JsonReaderTest, every_field_of_a_machine_survives) {
  const Machine machine = described_record().machines[0];
  EXPECT_EQ(to_bytes(from_bytes<Machine>(to_bytes(machine))), to_bytes(machine));
  EXPECT_EQ(from_bytes<Machine>(to_bytes(machine)).cpu_quota, 4.5);
  EXPECT_EQ(from_bytes<Machine>(to_bytes(Machine())).governor, "");
}

TEST(JsonReaderTest, numbers_that_are_none_are_null_in_the_file) {
  RunRecord record = small_record();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  record.runs[1].loss_last = nan;
  record.runs[1].speedup = std::numeric_limits<double>::infinity();
  record.runs[1].baseline.reset();
  const json file = json::parse(to_json(record));
  const json& run = file["lockstep"]["runs"][1];
  EXPECT_TRUE(run["loss"]["last"].is_null());
  EXPECT_TRUE(run["speedup"].is_null());
  EXPECT_TRUE(run["baseline"].is_null());
  EXPECT_TRUE(run["step_s"]["p95"].is_null());
  const RunRecord back = from_json(file.dump(), "a.json");
  EXPECT_TRUE(std::isnan(back.runs[1].loss_last));
  EXPECT_FALSE(back.runs[1].speedup);
}

TEST(JsonReaderTest, a_measure_without_a_value_is_left_out) {
  RunRecord record = small_record();
  record.runs[1].own_measures = {{"negotiation_s", std::numeric_limits<double>::quiet_NaN(), "per step"},
                                 {"packs", 1.5, "per step"}};
  const RunRecord back = from_json(to_json(record), "a.json");
  ASSERT_EQ(back.runs[1].own_measures.size(), 1U);
  EXPECT_EQ(back.runs[1].own_measures[0].name, "packs");
}

TEST(JsonReaderTest, samples_come_back_to_the_last_bit) {
  RunRecord record = small_record();
  record.runs[1].samples[0] = {0.1 + 0.2, 1e-300};
  EXPECT_THAT(from_json(to_json(record), "a.json").runs[1].samples[0], ElementsAre(0.1 + 0.2, 1e-300));
}

TEST(JsonReaderTest, intervals_of_speed_up_that_an_older_file_lacks_follow_from_those_of_the_rates) {
  RunRecord record = small_record();
  record.runs[0].rate_interval = Interval{15.5, 16.5, ""};
  record.runs[1].rate_interval = Interval{29, 31, ""};
  for (results::Run& run : record.runs) run.speedup_interval.reset();
  const RunRecord back = from_json(to_json(record), "a.json");
  ASSERT_TRUE(back.runs[1].speedup_interval);
  EXPECT_LT(back.runs[1].speedup_interval->low, *record.runs[1].speedup);
  EXPECT_GT(back.runs[1].speedup_interval->high, *record.runs[1].speedup);
}

TEST(JsonReaderTest, unknown_keys_are_ignored) {
  EXPECT_EQ(message_after([](json& file) {
              file["later"] = 1;
              file["lockstep"]["later"] = {1, 2};
              file["lockstep"]["runs"][0]["later"] = "x";
            }),
            "accepted");
}

TEST(JsonReaderTest, a_text_that_is_not_utf_8_is_written_so_that_it_can_be_read) {
  RunRecord record = small_record();
  record.command = {"lockstep", "\xff\xfe", "a\"b\\c\n"};
  const RunRecord back = from_json(to_json(record), "a.json");
  EXPECT_EQ(back.command[0], "lockstep");
  // A line end would break a terminal line and a table.
  EXPECT_EQ(back.command[2], "a\"b\\c ");
}

TEST(JsonReaderTest, files_that_are_no_record_are_each_told_apart) {
  const std::string good = to_json(small_record());
  EXPECT_THAT(message(""), HasSubstr("'a.json' is empty"));
  EXPECT_THAT(message(" \n"), HasSubstr("'a.json' is empty"));
  EXPECT_THAT(message("model,batch\nresnet50,8\n"), HasSubstr("'a.json' is not JSON"));
  EXPECT_THAT(message("{\"a\": 1,}"), HasSubstr("'a.json' is not JSON: byte 9"));
  EXPECT_THAT(message("[1, 2]"), HasSubstr("no result of lockstep bench"));
  EXPECT_THAT(message("{\"benchmarks\": []}"), HasSubstr("no result of lockstep bench"));
  EXPECT_THAT(message("{\"benchmark_results\": [1e999]}"), HasSubstr("a number that is too large"));
  for (const size_t length : {size_t{1}, good.size() / 3, good.size() / 2, good.size() - 3}) {
    EXPECT_THAT(message(good.substr(0, length)),
                HasSubstr("cut off after " + std::to_string(length) + " bytes"));
  }
}

TEST(JsonReaderTest, a_newer_schema_is_refused_with_both_versions) {
  EXPECT_THAT(message_after([](json& file) { file["lockstep"]["schema_version"] = 99; }),
              AllOf(HasSubstr("schema_version is 99"), HasSubstr("up to 2")));
}

TEST(JsonReaderTest, a_key_of_the_wrong_type_is_named_with_what_was_expected) {
  EXPECT_THAT(
      message_after([](json& file) { file["lockstep"]["runs"][1]["ranks"] = "2"; }),
      AllOf(HasSubstr("'a.json': lockstep.runs[1].ranks is \"2\""), HasSubstr("expected a whole number")));
  EXPECT_THAT(message_after([](json& file) { file["lockstep"]["runs"][1]["ranks"] = 0; }),
              HasSubstr("expected a whole number from 1 to 1000000"));
  EXPECT_THAT(
      message_after([](json& file) { file["lockstep"]["runs"][1]["seed"] = uint64_t{1} << 63; }),
      HasSubstr(
          "lockstep.runs[1].seed is 9223372036854775808, expected a whole number from -9223372036854775808"));
  EXPECT_THAT(message_after([](json& file) { file["lockstep"]["runs"][0]["images_per_s"] = "fast"; }),
              HasSubstr("lockstep.runs[0].images_per_s is \"fast\", expected a number"));
  EXPECT_THAT(message_after([](json& file) { file["lockstep"]["runs"][0]["step_s"]["p50"] = true; }),
              HasSubstr("lockstep.runs[0].step_s.p50 is true, expected a number"));
  EXPECT_THAT(message_after([](json& file) { file["lockstep"]["runs"][0]["coupled"] = 1; }),
              HasSubstr("lockstep.runs[0].coupled is 1, expected true or false"));
  EXPECT_THAT(message_after([](json& file) { file["lockstep"]["runs"][1]["samples"][2][1] = nullptr; }),
              HasSubstr("lockstep.runs[1].samples[2][1] is missing, expected a number"));
  EXPECT_THAT(message_after([](json& file) { file["lockstep"]["runs"][1]["samples"][2] = {1.0}; }),
              HasSubstr("lockstep.runs[1].samples[2] is a list of 1, expected one number per rank, 2"));
  EXPECT_THAT(message_after([](json& file) { file["lockstep"]["runs"][1]["samples"][2] = 1.0; }),
              HasSubstr("lockstep.runs[1].samples[2] is 1.0, expected a list of numbers"));
  EXPECT_THAT(message_after([](json& file) { file["lockstep"]["runs"][1]["samples"][2] = nullptr; }),
              HasSubstr("lockstep.runs[1].samples[2] is missing, expected a list of numbers"));
  EXPECT_THAT(
      message_after([](json& file) { file["lockstep"]["runs"][1]["warmup_samples"] = {{1.0}}; }),
      HasSubstr("lockstep.runs[1].warmup_samples[0] is a list of 1, expected one number per rank, 2"));
  EXPECT_THAT(message_after([](json& file) { file["lockstep"]["runs"] = json::object(); }),
              HasSubstr("lockstep.runs is an object, expected a list"));
  EXPECT_THAT(message_after([](json& file) { file["lockstep"]["runs"][0] = 7; }),
              HasSubstr("lockstep.runs[0] is 7, expected an object"));
  EXPECT_THAT(message_after([](json& file) { file["lockstep"] = "yes"; }),
              HasSubstr("lockstep is \"yes\", expected an object"));
}

TEST(JsonReaderTest, a_key_without_which_a_run_means_nothing_must_be_there) {
  for (const char* key : {"model", "batch_per_rank", "ranks", "strategy", "samples"}) {
    EXPECT_THAT(message_after([&](json& file) { file["lockstep"]["runs"][1].erase(key); }),
                HasSubstr(std::string("lockstep.runs[1].") + key + " is missing"));
  }
  EXPECT_THAT(message_after([](json& file) { file["lockstep"].erase("schema_version"); }),
              HasSubstr("lockstep.schema_version is missing"));
}

TEST(JsonReaderTest, a_file_that_cannot_be_read_is_named) {
  try {
    read_record("/nowhere/a.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/a.json"));
  }
}

/// A file as PyTorch's own benchmark writes it, 2 samples per rank.
json pytorch_file() {
  return {{"pytorch_version", "2.1.0"},
          {"cuda_version", "12.1"},
          {"distributed_backend", "nccl"},
          {"bucket_size", 25},
          {"benchmark_results",
           {{{"model", "resnet50"},
             {"batch_size", 32},
             {"result",
              {{{"ranks", {0}}, {"measurements", {0.5, 0.5}}},
               {{"ranks", {0}}, {"measurements", {0.5, 0.5}}},
               {{"ranks", {0, 1}}, {"measurements", {0.5, 0.75, 0.5, 0.75}}}}}}}}};
}

TEST(JsonReaderTest, a_file_of_pytorchs_benchmark_becomes_runs_with_pooled_samples) {
  const RunRecord record = from_json(pytorch_file().dump(), "p.json");
  EXPECT_EQ(record.source, "pytorch");
  EXPECT_EQ(record.torch_version, "2.1.0");
  EXPECT_EQ(record.cuda_version, "12.1");
  ASSERT_EQ(record.runs.size(), 3u);
  EXPECT_EQ(record.runs[0].strategy, "single");
  EXPECT_EQ(record.runs[0].bucket_mb, 0);
  EXPECT_EQ(record.runs[1].strategy, "ddp");
  const auto& two = record.runs[2];
  EXPECT_EQ(two.ranks, 2);
  EXPECT_EQ(two.batch_per_rank, 32);
  EXPECT_EQ(two.backend, "nccl");
  EXPECT_EQ(two.device, "cuda");
  EXPECT_TRUE(two.pooled);
  EXPECT_THAT(two.samples,
              ElementsAre(ElementsAre(0.5), ElementsAre(0.75), ElementsAre(0.5), ElementsAre(0.75)));
  EXPECT_DOUBLE_EQ(two.step_s.p50.value(), 0.625);
  EXPECT_DOUBLE_EQ(two.images_per_s, 2 * 32 / 0.625);
  EXPECT_DOUBLE_EQ(two.speedup.value(), 1.6);
}

TEST(JsonReaderTest, a_file_of_pytorchs_benchmark_can_be_written_as_ours_and_read_again) {
  const std::string text = to_json(from_json(pytorch_file().dump(), "p.json"));
  EXPECT_EQ(to_json(from_json(text, "a.json")), text);
  EXPECT_EQ(json::parse(text)["benchmark_results"], pytorch_file()["benchmark_results"]);
}

TEST(JsonReaderTest, errors_in_a_file_of_pytorchs_benchmark_are_named_too) {
  json file = pytorch_file();
  file["benchmark_results"][0]["result"][2]["measurements"][3] = "slow";
  EXPECT_THAT(message(file.dump()), HasSubstr("benchmark_results[0].result[2].measurements[3] is \"slow\""));
  file = pytorch_file();
  file["benchmark_results"][0]["result"][2]["ranks"] = json::array();
  EXPECT_THAT(message(file.dump()), HasSubstr("expected at least one rank"));
}

TEST(JsonReaderTest, hosts_that_nobody_knows_are_said_so_everywhere) {
  RunRecord record = small_record();
  for (results::Run& run : record.runs) run.hosts = 0;
  const std::string text = to_json(record);
  EXPECT_THAT(text, HasSubstr("\"hosts\": null"));
  EXPECT_EQ(from_json(text, "a.json").runs[1].hosts, 0);
  const std::string csv = to_csv(record);
  EXPECT_THAT(csv.substr(0, csv.find('\n')), HasSubstr("ranks,hosts,"));
  EXPECT_THAT(csv, testing::Not(HasSubstr(",0,ddp")));
  EXPECT_THAT(to_text(ddp_tables(record), {.width = 200, .screen = true}),
              AllOf(HasSubstr("?M/2R"), testing::Not(HasSubstr("1M/"))));
  record.runs[0].hosts = 2;
  EXPECT_THAT(to_text(scaling_tables(record)), HasSubstr("hosts"));
  EXPECT_EQ(spare_cores(record, record.runs[1]), std::nullopt);
}

TEST(JsonReaderTest, traces_are_referred_to_import) {
  const std::string packed = std::string("\x1f\x8b\x08", 3) + "rest";
  for (const std::string& text : {std::string(R"({"schemaVersion": 1, "traceEvents": []})"),
                                  std::string(R"({"schemaVersion": 1, "traceEvents": [{"ph": )"),
                                  std::string(R"( [{"ph": "X", "name": "a"}])"), packed}) {
    try {
      from_json(text, "a.json");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("'a.json' is no result"), HasSubstr("trace")));
      EXPECT_THAT(error.advice(), HasSubstr("lockstep import"));
    }
  }
}

}  // namespace
}  // namespace lockstep::results
