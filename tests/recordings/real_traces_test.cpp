#include <algorithm>
#include <cmath>
#include <random>
#include <unordered_set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/measure/phases.h"
#include "lockstep/recordings/import.h"
#include "lockstep/recordings/kineto_trace.h"
#include "lockstep/recordings/rank_steps.h"
#include "lockstep/recordings/trace_text.h"

namespace lockstep::recordings {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const fs::path kFolder = LOCKSTEP_TRACES;

json trace_of(const std::string& name) {
  return json::parse(TraceText::open(kFolder / (name + ".json.gz")).first(size_t{1} << 28));
}

/// What other programs worked out from a trace, in milliseconds.
struct Facts {
  const char* file;
  int steps;
  /// Mean of a step, by ProfilerStep or from update to update.
  double step_ms;
  /// Of all steps, by the collectives that were launched in the trace.
  double exposed_ms;
};

constexpr Facts kFacts[] = {{"torch_1_9", 5, 122.53, 0},
                            {"three_streams", 5, 214.81, 160.73},
                            {"synchronized_host", 6, 118.57, 70.84},
                            {"gloo_rank_34_of_300", 5, 256.99, 0},
                            {"ddp_2_gpus", 3, 222.37, 39.56},
                            {"two_optimizers", 2, 615.12, 336.98},
                            {"host_ahead", 3, 18.84, 35.28}};

using Times = std::vector<std::pair<double, double>>;

Times merged(Times times) {
  std::ranges::sort(times);
  Times all;
  for (const auto& [begin, end] : times) {
    if (!all.empty() && begin <= all.back().second) {
      all.back().second = std::max(all.back().second, end);
    } else {
      all.emplace_back(begin, end);
    }
  }
  return all;
}

/// Microseconds in which a collective that was launched in the trace runs and no other kernel does.
double exposed_us(const json& trace) {
  std::unordered_set<int64_t> launched;
  const auto category = [](const json& event) { return event.value("cat", ""); };
  for (const json& event : trace["traceEvents"]) {
    if (category(event).ends_with("runtime") && event.contains("args"))
      launched.insert(event["args"].value("correlation", int64_t{-1}));
  }
  Times collectives, others;
  for (const json& event : trace["traceEvents"]) {
    if (category(event) != "kernel") continue;
    const double begin = event["ts"].get<double>(), end = begin + event["dur"].get<double>();
    const bool collective = event["name"].get<std::string>().find("nccl") != std::string::npos;
    if (!collective) others.emplace_back(begin, end);
    if (collective && launched.contains(event["args"].value("correlation", int64_t{-1})))
      collectives.emplace_back(begin, end);
  }
  double sum = 0;
  others = merged(others);
  for (const auto& [begin, end] : merged(collectives)) {
    sum += end - begin;
    auto other = std::ranges::lower_bound(others, begin, {}, &std::pair<double, double>::second);
    for (; other != others.end() && other->first < end; ++other)
      sum -= std::min(end, other->second) - std::max(begin, other->first);
  }
  return sum;
}

struct Read {
  JobSteps job;
  measure::Breakdown breakdown;
};

Read read(const json& trace) {
  const KinetoTrace parsed = parse_kineto_trace(trace.dump(), "trace.json");
  Read result{.job = put_together({{0, "", stamp_steps(parsed, parsed.events.front().begin_ns)}})};
  result.breakdown = measure::break_down(result.job.stamps, 2);
  return result;
}

void expect_sums(const measure::Breakdown& breakdown) {
  for (const measure::RankBreakdown& rank : breakdown.ranks) {
    const measure::PhaseTimes& mean = rank.mean;
    EXPECT_NEAR(
        mean.input_s + mean.forward_s + mean.backward_s + mean.exposed_s() + mean.optimizer_s + mean.other_s,
        mean.step_s, 1e-3 * mean.step_s);
  }
}

class RealTraceTest : public testing::TestWithParam<Facts> {};

TEST_P(RealTraceTest, steps_and_exposed_communication_are_those_of_the_trace) {
  const json trace = trace_of(GetParam().file);
  const Read found = read(trace);
  EXPECT_EQ(found.breakdown.steps, GetParam().steps);
  EXPECT_NEAR(1e3 * found.breakdown.mean.step_s, GetParam().step_ms, 0.02 * GetParam().step_ms);
  expect_sums(found.breakdown);
  if (GetParam().exposed_ms > 0) {
    const double exposed_ms = 1e3 * found.breakdown.mean.exposed_s() * found.breakdown.steps;
    EXPECT_NEAR(exposed_ms, GetParam().exposed_ms, 0.01 * GetParam().exposed_ms);
    EXPECT_NEAR(exposed_ms, 1e-3 * exposed_us(trace), 0.01 * GetParam().exposed_ms);
  }
}

/// Changes a trace in ways that leave the training as it was.
class Disturbed {
 public:
  Disturbed(json trace, unsigned seed) : trace_(std::move(trace)), random_(seed) {}

  json events_in_another_order() {
    std::ranges::shuffle(trace_["traceEvents"].get_ref<json::array_t&>(), random_);
    return trace_;
  }
  /// Every second kernel of a stream runs on another one.
  json streams_split() {
    for (json& event : kernels()) {
      if (random_() % 2 == 0) event["tid"] = stream_of(event) + 1000;
    }
    return trace_;
  }
  /// A clock that began at another time, with fractions of microseconds.
  json clock_shifted(double by_us) {
    trace_.erase("baseTimeNanoseconds");
    for (json& event : trace_["traceEvents"]) event["ts"] = event["ts"].get<double>() + by_us;
    return trace_;
  }
  /// Whole microseconds near 2^53.
  json late_clock() {
    trace_.erase("baseTimeNanoseconds");
    const double first = first_us();
    for (json& event : trace_["traceEvents"]) {
      const auto at = static_cast<int64_t>(event["ts"].get<double>() - first);
      event["dur"] = static_cast<int64_t>(event["dur"].get<double>());
      event["ts"] = (int64_t{1} << 53) - 100'000'000 + at;
    }
    return trace_;
  }
  /// Kernels of a step before the trace, on every stream, up to where those of the trace begin.
  json work_from_before() {
    std::map<int64_t, json> first;
    for (const json& event : kernels()) {
      auto [found, is_new] = first.try_emplace(stream_of(event), event);
      if (!is_new && event["ts"] < found->second["ts"]) found->second = event;
    }
    double end = INFINITY;
    for (const auto& [stream, event] : first) end = std::min(end, event["ts"].get<double>());
    for (auto& [stream, event] : first) {
      for (int i = 1; i <= 50; ++i) {
        event["ts"] = end - 30.0 * i;
        event["dur"] = 25;
        event["args"]["correlation"] = 2'000'000'000 + 100 * stream + i;
        trace_["traceEvents"].push_back(event);
      }
    }
    return trace_;
  }

 private:
  static int64_t stream_of(const json& event) {
    const json& stream = event["tid"];
    if (!stream.is_string()) return stream.get<int64_t>();
    const auto text = stream.get<std::string>();
    return std::stoll(text.substr(text.find_first_of("0123456789")));
  }
  std::vector<std::reference_wrapper<json>> kernels() {
    std::vector<std::reference_wrapper<json>> all;
    for (json& event : trace_["traceEvents"]) {
      if (event["cat"] == "kernel" || event["cat"] == "Kernel") all.emplace_back(event);
    }
    return all;
  }
  double first_us() const {
    double first = INFINITY;
    for (const json& event : trace_["traceEvents"]) first = std::min(first, event["ts"].get<double>());
    return first;
  }

  json trace_;
  std::mt19937 random_;
};

TEST_P(RealTraceTest, what_leaves_the_training_as_it_was_leaves_its_steps) {
  const json trace = trace_of(GetParam().file);
  const measure::PhaseTimes before = read(trace).breakdown.mean;
  const auto disturbed = [&](unsigned seed) { return Disturbed(trace, seed); };
  const std::pair<const char*, json> all[] = {{"another order", disturbed(1).events_in_another_order()},
                                              {"streams split", disturbed(2).streams_split()},
                                              {"an earlier clock", disturbed(3).clock_shifted(-1000.125)},
                                              {"a later clock", disturbed(4).clock_shifted(1e9 + 0.375)},
                                              {"near 2^53", disturbed(5).late_clock()},
                                              {"work from before", disturbed(6).work_from_before()}};
  for (const auto& [what, changed] : all) {
    const Read found = read(changed);
    EXPECT_EQ(found.breakdown.steps, GetParam().steps) << what;
    EXPECT_NEAR(found.breakdown.mean.step_s, before.step_s, 0.02 * before.step_s) << what;
    if (GetParam().exposed_ms > 0) {
      const double exposed_s = 1e-6 * exposed_us(changed) / found.breakdown.steps;
      EXPECT_NEAR(found.breakdown.mean.exposed_s(), exposed_s, 0.01 * exposed_s) << what;
    }
    expect_sums(found.breakdown);
  }
}

INSTANTIATE_TEST_SUITE_P(Traces, RealTraceTest, testing::ValuesIn(kFacts),
                         [](const auto& facts) { return std::string(facts.param.file); });

TEST(RealJobTest, all_ranks_of_a_job_wait_for_the_one_that_comes_last) {
  const results::RecordedWork none;
  results::RunRecord record = import_job({.paths = {kFolder / "recommendation_8_ranks"}});
  const results::Run& run = record.runs.front();
  const double exposed_ms[] = {5.54, 11.06, 3.22, 9.45, 6.55, 6.21, 3.29, 1.58};
  ASSERT_EQ(run.breakdown->ranks.size(), 8);
  for (size_t rank = 0; rank < 8; ++rank)
    EXPECT_NEAR(1e3 * run.breakdown->ranks[rank].mean.exposed_s(), exposed_ms[rank], 0.06) << rank;
  EXPECT_EQ(run.breakdown->straggler, 7);
  expect_sums(*run.breakdown);

  for (const std::vector<int>& ranks : {std::vector<int>{7, 0}, {3, 4, 5}, {1}, {6, 2, 0, 1, 3}}) {
    std::vector<fs::path> paths;
    for (const int rank : ranks)
      paths.push_back(kFolder / fmt::format("recommendation_8_ranks/rank{}.json.gz", rank));
    record = import_job({.paths = paths});
    const results::Run& some = record.runs.front();
    EXPECT_EQ(some.hosts, 0);
    for (size_t i = 0; i < ranks.size(); ++i) {
      const auto rank = static_cast<size_t>(some.recorded->ranks[i]);
      EXPECT_NEAR(1e3 * some.breakdown->ranks[i].mean.exposed_s(), exposed_ms[rank], 0.06);
    }
  }
}

TEST(RealJobTest, ranks_whose_clocks_differ_by_a_millisecond_wait_as_long) {
  std::vector<PlacedSteps> placed;
  int64_t origin_ns = 0;
  for (int rank = 0; rank < 8; ++rank) {
    json trace = trace_of(fmt::format("recommendation_8_ranks/rank{}", rank));
    if (rank == 5) trace = Disturbed(std::move(trace), 1).clock_shifted(-1000);
    const KinetoTrace parsed = parse_kineto_trace(trace.dump(), "trace.json");
    if (rank == 0) origin_ns = parsed.events.front().begin_ns;
    placed.push_back({rank, rank == 5 ? "b" : "a", stamp_steps(parsed, origin_ns)});
  }
  const JobSteps job = put_together(std::move(placed));
  const measure::Breakdown found = measure::break_down(job.stamps);
  EXPECT_NEAR(job.stamps[5].clock_offset_s, -1e-3, job.stamps[5].clock_error_s + 1e-4);
  EXPECT_NEAR(found.ranks[5].mean.exposed_s(), 6.21e-3, 0.06e-3);
  EXPECT_EQ(found.straggler, 7);
}

}  // namespace
}  // namespace lockstep::recordings
