#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/recordings/kineto_trace.h"
#include "lockstep/recordings/rank_steps.h"
#include "lockstep/recordings/recording.h"

#include "recordings/made_traces.h"

namespace lockstep::recordings {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// The one sentence that refuses a trace; empty where it was taken.
std::string refusal(const std::string& text) {
  try {
    const KinetoTrace trace = parse_kineto_trace(text, "bad.json");
    if (trace.events.empty()) return "holds no events";
    stamp_steps(trace, trace.events.front().begin_ns);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string event(const std::string& members) {
  return R"({"traceEvents": [{)" + members + "}]}";
}

TEST(BadTracesTest, each_is_refused_with_one_sentence_that_names_the_file) {
  const std::vector<std::string> texts{
      "",
      " ",
      "{",
      "[",
      "[]",
      "{}",
      "null",
      "17",
      "\"text\"",
      "no JSON",
      "{\"traceEvents\": ",
      "{\"traceEvents\": [",
      "{\"traceEvents\": [{",
      "{\"traceEvents\": {}}",
      "{\"traceEvents\": 3}",
      "{\"traceEvents\": []}",
      "{\"traceEvents\": [[]]}",
      "{\"traceEvents\": [{\"ph\": \"X\"",
      "{\"traceEvents\": [{}]} more",
      "{\"traceEvents\": [{\"ts\": 1e999}]}",
      "{\"traceEvents\": [{\"ts\": inf}]}",
      "{\"traceEvents\": [{\"ts\": -nan}]}",
      "{\"traceEvents\": [{\"ts\": 01}]}",
      "{\"traceEvents\": [{\"name\": \"\\q\"}]}",
      "{\"traceEvents\": [{\"name\": \"\xff\"}]}",
      "{\"traceEvents\": [{\"name\": \"\n\"}]}",
      std::string("{\"traceEvents\": [{\"name\": \"\0\"}]}", 33),
      "{'traceEvents': []}",
      "{\"traceEvents\": [],}",
      "{\"distributedInfo\": {\"rank\": -1}, \"traceEvents\": []}",
      "{\"distributedInfo\": {\"rank\": \"none\"}, \"traceEvents\": []}",
      "{\"distributedInfo\": {\"rank\": 3, \"world_size\": 2}, \"traceEvents\": []}",
      "{\"distributedInfo\": {\"world_size\": 0}, \"traceEvents\": []}",
      "{\"distributedInfo\": {\"world_size\": 99999999999}, \"traceEvents\": []}",
      "{\"distributedInfo\": {\"pg_config\": [1]}, \"traceEvents\": []}",
      "{\"distributedInfo\": {\"pg_config\": [{\"ranks\": [-5]}]}, \"traceEvents\": []}",
      "{\"deviceProperties\": [7], \"traceEvents\": []}",
      "{\"deviceProperties\": [{\"name\": 7}], \"traceEvents\": []}",
      "{\"baseTimeNanoseconds\": -5, \"traceEvents\": []}",
      "{\"baseTimeNanoseconds\": 1e30, \"traceEvents\": []}",
      event(R"("ph": "X", "cat": "cpu_op", "name": "a", "ts": 1e17, "dur": 1)"),
      event(R"("ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1e17)"),
      event(R"("ph": "X", "cat": "cpu_op", "name": "a", "ts": -1e17, "dur": 1)"),
      event(R"("ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1, "dur": 1)"),
      event(R"("ph": "X", "cat": "user_annotation", "name": "Optimizer.step#SGD.step", "ts": 1, "dur": 1)"),
      event(R"("ph": "X", "cat": "user_annotation", "name": "ProfilerStep#", "ts": 1, "dur": 1)"),
      event(
          R"("ph": "X", "cat": "user_annotation", "name": "ProfilerStep#99999999999999999999", "ts": 5, "dur": -7)"),
      "{\"traceEvents\": " + std::string(100000, '['),
      "{\"distributedInfo\": " + std::string(100000, '[') + std::string(100000, ']') + ", \"traceEvents\": [",
      "{\"traceEvents\": [{\"args\": " + std::string(5000, '{'),
  };
  EXPECT_GE(texts.size(), 40);
  for (const std::string& text : texts) {
    const std::string found = refusal(text);
    EXPECT_FALSE(found.empty()) << text.substr(0, 100);
    EXPECT_TRUE(found.find("'bad.json'") != std::string::npos || found == "holds no events") << found;
    EXPECT_EQ(found.find('\n'), std::string::npos) << found;
    EXPECT_LT(found.size(), 200) << found;
  }
}

TEST(BadTracesTest, a_trace_that_is_cut_off_anywhere_is_refused_with_its_length) {
  const std::string whole = made_traces({.steps = 2})[0].dump();
  for (size_t length = 1; length + 1 < whole.size(); length += 97) {
    EXPECT_THAT(refusal(whole.substr(0, length)), testing::HasSubstr(fmt::format("after {} bytes", length)));
  }
  EXPECT_EQ(refusal(whole), "");
}

TEST(BadTracesTest, events_of_unknown_form_are_left_out) {
  json trace = made_traces({})[0];
  for (const char* strange :
       {R"({"ph": "X"})", R"({"ph": 3, "cat": [], "name": {"a": 1}, "args": 5})",
        R"({"ph": "X", "cat": "cpu_op", "name": "aten::x", "ts": 1, "args": {"Input Dims": "none"}})",
        R"({"ph": "X", "cat": "cpu_op", "name": "c10d::allreduce_", "ts": 5e6, "dur": 1,
                                  "args": {"Input Dims": [[[9223372036854775807, 9223372036854775807]]]}})"}) {
    trace["traceEvents"].push_back(json::parse(strange));
  }
  EXPECT_EQ(refusal(trace.dump()), "");
}

TEST(BadTracesTest, a_rank_file_that_contradicts_itself_is_refused) {
  const json good{
      {"lockstep_recording", 1}, {"rank", 0}, {"world", 2}, {"step_end_s", {1.0, 2.0}}, {"window", {0, 1}}};
  EXPECT_NO_THROW(parse_rank_file(good.dump(), "rank-0.json"));
  const auto refuses = [&](const char* key, const json& value) {
    json bad = good;
    bad[key] = value;
    EXPECT_THROW(parse_rank_file(bad.dump(), "rank-0.json"), Error) << key << " " << value;
  };
  refuses("lockstep_recording", 2);
  refuses("rank", 2);
  refuses("rank", -1);
  refuses("world", 0);
  refuses("step_end_s", {2.0, 1.0});
  refuses("step_end_s", "none");
  refuses("window", {1});
  refuses("window", {2, 1});
  refuses("trace", "../../etc/passwd");
  refuses("samples_per_step", 0);
  EXPECT_THROW(parse_rank_file("", "rank-0.json"), Error);
}

/// What check_readable() says of a made trace after `change`; empty where it is read.
template <typename Change>
std::string unreadable(const MadeJob& job, Change change) {
  json trace = made_traces(job)[0];
  change(trace);
  try {
    check_readable(parse_kineto_trace(trace.dump(), "t.json"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void erase(json& trace, const std::vector<std::string>& categories) {
  std::erase_if(trace["traceEvents"].get_ref<json::array_t&>(), [&](const json& event) {
    return std::ranges::find(categories, event["cat"].get<std::string>()) != categories.end();
  });
}

TEST(BadTracesTest, what_is_not_known_is_refused_by_its_name) {
  MadeJob gpu;
  gpu.device = true;
  const auto rename = [](const char* from, const char* to) {
    return [=](json& trace) {
      for (json& event : trace["traceEvents"]) {
        if (event["cat"] == from) event["cat"] = to;
      }
    };
  };
  EXPECT_EQ(unreadable(gpu, [](json&) {}), "");
  EXPECT_EQ(unreadable({}, [](json&) {}), "");
  EXPECT_THAT(unreadable(gpu, rename("cuda_runtime", "xpu_runtime")), testing::HasSubstr("xpu_runtime"));
  EXPECT_THAT(unreadable(gpu, rename("kernel", "mtia_ccp_events")), testing::HasSubstr("mtia_ccp_events"));
  EXPECT_THAT(unreadable({},
                         [](json& trace) {
                           for (json& event : trace["traceEvents"]) {
                             if (event["name"] == "gloo:all_reduce") event["name"] = "hccl:all_reduce";
                           }
                         }),
              testing::HasSubstr("hccl"));
  EXPECT_THAT(unreadable(gpu, [](json& trace) { erase(trace, {"kernel"}); }),
              testing::HasSubstr("without CUDA activity"));
  EXPECT_THAT(unreadable(gpu,
                         [](json& trace) {
                           erase(trace, {"cpu_op", "user_annotation"});
                         }),
              testing::HasSubstr("no operators"));
}

TEST(BadTracesTest, traces_of_old_versions_and_bare_lists_are_read) {
  MadeJob job;
  job.old_format = true;
  json trace = made_traces(job)[0];
  const size_t steps = stamp_steps(parse_kineto_trace(trace.dump(), "t.json"), 0).steps.size();
  for (json& event : trace["traceEvents"]) {
    event["cat"] = "Operator";
    event["tid"] = std::to_string(event["tid"].get<int>());
    if (event.contains("args") && event["args"].contains("Input Dims")) {
      event["args"]["Input dims"] = event["args"]["Input Dims"];
      event["args"].erase("Input Dims");
    }
    const auto name = event["name"].get<std::string>();
    if (name.starts_with("autograd::engine")) event["name"] = "MkldnnConvolutionBackward";
  }
  const RankSteps found = stamp_steps(parse_kineto_trace(trace.dump(), "t.json"), 0);
  EXPECT_EQ(found.steps.size(), steps);
  EXPECT_EQ(found.batch, 32);
  EXPECT_EQ(found.gradients.size(), 4);
  EXPECT_EQ(stamp_steps(parse_kineto_trace(trace["traceEvents"].dump(), "t.json"), 0).steps.size(), steps);
}

}  // namespace
}  // namespace lockstep::recordings
