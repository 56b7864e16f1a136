#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/measure/phases.h"
#include "lockstep/recordings/kineto_trace.h"
#include "lockstep/recordings/rank_steps.h"

#include "recordings/made_traces.h"

namespace lockstep::recordings {
namespace {

struct Explained {
  std::vector<RankSteps> ranks;
  JobSteps job;
  measure::Breakdown breakdown;

  const measure::PhaseTimes& rank(size_t rank) const { return breakdown.ranks[rank].mean; }
};

Explained explained(const MadeJob& job, const std::vector<std::string>& hosts = {}) {
  Explained result;
  std::vector<PlacedSteps> placed;
  int64_t origin_ns = 0;
  for (const nlohmann::json& made : made_traces(job)) {
    const KinetoTrace trace = parse_kineto_trace(made.dump(), "made.json");
    if (placed.empty()) origin_ns = trace.events.front().begin_ns;
    result.ranks.push_back(stamp_steps(trace, origin_ns));
    const std::string host = hosts.empty() ? "" : hosts[placed.size()];
    placed.push_back({static_cast<int>(placed.size()), host, result.ranks.back()});
  }
  result.job = put_together(std::move(placed));
  result.breakdown = measure::break_down(result.job.stamps, static_cast<size_t>(job.world));
  return result;
}

constexpr double kMs = 1e-3;
/// Gradients are final a microsecond before their node ends.
constexpr double kNear = 5e-6;

class FormatTest : public testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  MadeJob job() const {
    MadeJob made;
    std::tie(made.device, made.old_format) = GetParam();
    // The device of a host that is ahead has its batch in time.
    if (made.device) made.input_us = 0;
    return made;
  }
};

TEST_P(FormatTest, phases_of_a_step_are_those_that_it_was_made_of) {
  const Explained found = explained(job());
  const double input_s = job().input_us * 1e-6;
  EXPECT_EQ(found.breakdown.steps, 6);
  EXPECT_NEAR(found.rank(0).input_s, input_s, kNear);
  EXPECT_NEAR(found.rank(0).forward_s, 4 * kMs, kNear);
  EXPECT_NEAR(found.rank(0).backward_s, 8 * kMs, kNear);
  EXPECT_NEAR(found.rank(0).waiting_s, 0, kNear);
  EXPECT_NEAR(found.rank(0).transfer_s, 1.5 * kMs, kNear);
  EXPECT_NEAR(found.rank(0).optimizer_s, 0.5 * kMs, kNear);
  EXPECT_NEAR(found.breakdown.communication_s, 3 * kMs, kNear);
  EXPECT_NEAR(found.breakdown.ranks[0].buckets[0].exposed_s, 0, kNear);
  EXPECT_NEAR(found.breakdown.ranks[0].buckets[1].exposed_s, 1.5 * kMs, kNear);
  ASSERT_EQ(found.job.collectives.size(), 2);
  EXPECT_EQ(found.job.collectives[0].kind, "all-reduce");
  EXPECT_EQ(found.job.collectives[0].bytes, 4000);
  EXPECT_EQ(found.ranks[0].batch, 32);
  ASSERT_EQ(found.ranks[0].gradients.size(), 4);
  EXPECT_EQ(found.ranks[0].gradients[3].elements, 500);
  EXPECT_NEAR(found.ranks[0].gradients[0].after_backward_s, 2 * kMs, kNear);
  EXPECT_NEAR(found.ranks[0].gradients[3].after_backward_s, 8 * kMs, kNear);
}

TEST_P(FormatTest, the_rank_that_comes_last_is_waited_for) {
  MadeJob made = job();
  made.late_us = {0, 3000};
  const Explained found = explained(made);
  EXPECT_EQ(found.breakdown.straggler, 1);
  EXPECT_NEAR(found.rank(0).waiting_s, 3 * kMs, kNear);
  EXPECT_NEAR(found.rank(1).waiting_s, 0, kNear);
  EXPECT_NEAR(found.rank(1).transfer_s, 1.5 * kMs, kNear);
}

TEST_P(FormatTest, micro_batches_are_added_up) {
  MadeJob made = job();
  made.passes = 3;
  const Explained found = explained(made);
  EXPECT_EQ(found.breakdown.steps, 6);
  EXPECT_EQ(found.ranks[0].passes, 3);
  EXPECT_NEAR(found.rank(0).forward_s, 12 * kMs, 4 * kNear);
  EXPECT_NEAR(found.rank(0).backward_s, 24 * kMs, 4 * kNear);
  EXPECT_NEAR(found.rank(0).transfer_s, 1.5 * kMs, 4 * kNear);
  EXPECT_EQ(found.ranks[0].batch, 96);
}

TEST_P(FormatTest, micro_batches_may_all_be_fetched_first) {
  MadeJob made = job();
  made.passes = 3;
  made.fetch_first = true;
  for (const auto& [module, compiled] : {std::pair{true, false}, {false, false}, {false, true}}) {
    made.module = module;
    made.compiled = compiled;
    const Explained found = explained(made);
    EXPECT_EQ(found.breakdown.steps, 6);
    EXPECT_EQ(found.ranks[0].passes, 3);
    EXPECT_NEAR(found.rank(0).input_s, 3e-6 * made.input_us, 4 * kNear);
    EXPECT_NEAR(found.rank(0).forward_s, 12 * kMs, 4 * kNear);
    EXPECT_NEAR(found.rank(0).backward_s, 24 * kMs, 4 * kNear);
    EXPECT_EQ(found.ranks[0].batch, compiled ? 0 : 96);
  }
}

TEST_P(FormatTest, a_compiled_network_has_a_forward_pass) {
  MadeJob made = job();
  made.module = false;
  made.compiled = true;
  made.evaluate_every = 3;
  EXPECT_EQ(explained(made).ranks[0].evaluation_steps, 6);
  made.passes = 3;
  EXPECT_EQ(explained(made).ranks[0].passes, 3);
}

TEST_P(FormatTest, communication_of_earlier_micro_batches_is_exposed) {
  MadeJob made = job();
  made.passes = 3;
  made.reduce_each_pass = true;
  const Explained found = explained(made);
  EXPECT_NEAR(found.rank(0).transfer_s, 4.5 * kMs, 8 * kNear);
  EXPECT_NEAR(found.rank(0).backward_s, 24 * kMs, 8 * kNear);
  EXPECT_EQ(found.job.collectives.size(), 6);
}

INSTANTIATE_TEST_SUITE_P(Formats, FormatTest, testing::Combine(testing::Bool(), testing::Bool()));

TEST(StepsTest, steps_that_are_torn_do_not_count) {
  const Explained found = explained({.torn = true});
  EXPECT_EQ(found.breakdown.steps, 4);
  EXPECT_EQ(found.ranks[0].incomplete_steps, 2);
}

TEST(StepsTest, batches_without_backward_are_evaluation) {
  MadeJob made;
  made.evaluate_every = 3;
  const Explained found = explained(made);
  EXPECT_EQ(found.breakdown.steps, 6);
  EXPECT_EQ(found.ranks[0].evaluation_steps, 6);
  EXPECT_NEAR(found.rank(0).step_s, 15 * kMs, kNear);
}

TEST(StepsTest, without_an_optimizer_the_profiler_counts_steps) {
  MadeJob made;
  made.optimizer = false;
  made.profiler_steps = true;
  const Explained found = explained(made);
  EXPECT_EQ(found.breakdown.steps, 6);
  EXPECT_EQ(found.ranks[0].steps.front().number, 3);
  EXPECT_NEAR(found.rank(0).transfer_s, 1.5 * kMs, kNear);
}

TEST(StepsTest, without_a_loader_a_layer_behind_backward_begins_a_micro_batch) {
  MadeJob made;
  made.loader = made.module = false;
  made.passes = 3;
  EXPECT_EQ(explained(made).ranks[0].passes, 3);
}

TEST(StepsTest, networks_that_are_updated_by_turns_have_one_batch) {
  MadeJob made;
  made.marked = made.fetch_first = made.update_each_pass = true;
  made.module = false;
  made.passes = 2;
  const Explained found = explained(made);
  EXPECT_EQ(found.ranks[0].passes, 1);
  EXPECT_EQ(found.ranks[0].batch, 32);
}

TEST(StepsTest, a_compiled_update_is_no_forward_pass) {
  MadeJob made;
  made.module = made.optimizer = false;
  made.compiled = made.marked = true;
  const Explained found = explained(made);
  EXPECT_EQ(found.breakdown.steps, 6);
  EXPECT_EQ(found.ranks[0].evaluation_steps, 0);
  EXPECT_NEAR(found.rank(0).input_s, 1 * kMs, kNear);
}

TEST(StepsTest, an_optimizer_may_call_forward_and_backward) {
  MadeJob made;
  made.closure = true;
  const Explained found = explained(made);
  EXPECT_EQ(found.breakdown.steps, 6);
  EXPECT_NEAR(found.rank(0).forward_s, 4 * kMs, kNear);
  EXPECT_NEAR(found.rank(0).backward_s, 8 * kMs, kNear);
  EXPECT_NEAR(found.rank(0).transfer_s, 1.5 * kMs, kNear);
  EXPECT_NEAR(found.rank(0).optimizer_s, 0.5 * kMs, kNear);
}

TEST(StepsTest, marks_of_the_recorder_end_steps_whatever_optimizers_do) {
  MadeJob made;
  made.loader = false;
  made.marked = true;
  made.passes = 2;
  made.reduce_each_pass = made.update_each_pass = true;
  const Explained two = explained(made);
  EXPECT_EQ(two.breakdown.steps, 6);
  EXPECT_EQ(two.ranks[0].steps.front().number, 40);
  EXPECT_NEAR(two.rank(0).backward_s, 16 * kMs, 4 * kNear);
  EXPECT_NEAR(two.rank(0).optimizer_s, 1 * kMs, 4 * kNear);
  EXPECT_NEAR(two.rank(0).transfer_s, 3 * kMs, 4 * kNear);
  made = {};
  made.marked = true;
  made.optimizer = false;
  const Explained foreign = explained(made);
  EXPECT_EQ(foreign.breakdown.steps, 6);
  EXPECT_NEAR(foreign.rank(0).optimizer_s, 0.5 * kMs, kNear);
  EXPECT_NEAR(foreign.rank(0).transfer_s, 1.5 * kMs, kNear);
}

TEST_P(FormatTest, work_between_the_optimizer_and_the_next_batch_is_no_wait_for_it) {
  MadeJob made = job();
  made.after_us = 2000;
  made.marked = true;
  const Explained found = explained(made);
  EXPECT_NEAR(found.rank(0).input_s, made.input_us * 1e-6, kNear);
  EXPECT_NEAR(found.rank(0).optimizer_s, 0.5 * kMs, kNear);
  // Nothing tells how long it takes behind the last step.
  EXPECT_NEAR(found.rank(0).other_s, 2 * kMs * 5 / 6, kNear);
}

TEST(StepsTest, the_batch_of_an_embedding_is_that_of_its_indexes) {
  MadeJob made;
  made.embedding = true;
  EXPECT_EQ(explained(made).ranks[0].batch, 32);
}

TEST(StepsTest, without_marks_there_are_no_steps) {
  MadeJob made;
  made.optimizer = false;
  EXPECT_THROW(explained(made), Error);
}

TEST(StepsTest, broadcasts_in_forward_are_communication) {
  MadeJob made;
  made.broadcast_us = 700;
  const Explained found = explained(made);
  EXPECT_NEAR(found.rank(0).forward_s, 3.3 * kMs, kNear);
  EXPECT_NEAR(found.rank(0).transfer_s, 2.2 * kMs, kNear);
  EXPECT_EQ(found.job.collectives.front().kind, "broadcast");
  EXPECT_NEAR(found.breakdown.ranks[0].buckets[0].exposed_s, 0.7 * kMs, kNear);
}

TEST(StepsTest, other_kinds_of_collectives_keep_their_names) {
  MadeJob made;
  made.kind = "reduce_scatter";
  EXPECT_EQ(explained(made).job.collectives.front().kind, "reduce-scatter");
}

TEST(StepsTest, the_bytes_of_sparse_gradients_are_not_those_of_dense_ones) {
  MadeJob made;
  made.kind = "sparse_all_reduce";
  EXPECT_EQ(explained(made).job.collectives.front().kind, "all-reduce");
  EXPECT_EQ(explained(made).job.collectives.front().bytes, 0);
}

TEST(StepsTest, clocks_of_two_hosts_are_compared_by_what_they_exchange) {
  MadeJob made;
  made.clock_offset_us = 4000;
  const Explained found = explained(made, {"a", "b"});
  const measure::RankStamps& other = found.job.stamps[1];
  EXPECT_NEAR(other.clock_offset_s, 4 * kMs, other.clock_error_s);
  EXPECT_GT(other.clock_error_s, 0);
  EXPECT_LE(other.clock_error_s, 1.6 * kMs);
  EXPECT_EQ(found.breakdown.steps, 6);
}

/// The traces of ranks 0 and `other`.
std::vector<PlacedSteps> placed_at(const MadeJob& job, int other) {
  std::vector<PlacedSteps> placed;
  for (const nlohmann::json& made : made_traces(job)) {
    const KinetoTrace trace = parse_kineto_trace(made.dump(), "made.json");
    placed.push_back({placed.empty() ? 0 : other, "a", stamp_steps(trace, trace.events.front().begin_ns)});
  }
  return placed;
}

TEST(StepsTest, waits_for_the_device_count_on_the_threads_that_compute) {
  MadeJob made;
  made.device = true;
  nlohmann::json trace = made_traces(made)[0];
  nlohmann::json wait = trace["traceEvents"][0];
  const auto thread = wait["tid"].get<int>();
  wait["cat"] = "cuda_runtime";
  wait["name"] = "cudaStreamSynchronize";
  wait["dur"] = 250;
  // One call on the training's own thread, and one on a thread of Gloo's, which copies from and to the
  // device.
  for (const int of : {thread, 77}) {
    wait["tid"] = of;
    trace["traceEvents"].push_back(wait);
  }
  const KinetoTrace read = parse_kineto_trace(trace.dump(), "made.json");
  const results::RecordedWork work =
      put_together({{0, "", stamp_steps(read, read.events.front().begin_ns)}}).work.front();
  EXPECT_EQ(work.synchronizations, 1);
  EXPECT_NEAR(work.synchronized_s, 250e-6, 1e-9);
  EXPECT_EQ(work.kernels, std::ranges::count(read.events, EventKind::kKernel, &Event::kind));
}

TEST(StepsTest, a_group_of_many_ranks_lists_the_first_of_them) {
  MadeJob made;
  made.device = true;
  made.group_ranks = "[0, 2, 4, ...]";
  EXPECT_EQ(put_together(placed_at(made, 31)).collectives.size(), 2);
  EXPECT_THAT(put_together(placed_at(made, 3)).collectives, testing::IsEmpty());
}

TEST(StepsTest, steps_whose_numbers_all_differ_are_not_matched) {
  MadeJob made;
  made.profiler_steps = true;
  std::vector<PlacedSteps> placed = placed_at(made, 1);
  for (RankStep& step : placed[1].steps.steps) step.number += 24;
  EXPECT_THROW(put_together(placed), Error);
  placed[1].steps.steps[0].number = -1;
  EXPECT_EQ(put_together(placed).stamps[0].steps.size(), 6);
}

TEST(StepsTest, one_trace_of_two_ranks_has_transfer_and_no_waiting) {
  MadeJob made;
  const KinetoTrace trace = parse_kineto_trace(made_traces(made)[0].dump(), "made.json");
  const JobSteps job = put_together({{0, "", stamp_steps(trace, trace.events.front().begin_ns)}});
  const measure::Breakdown found = measure::break_down(job.stamps, 2);
  EXPECT_NEAR(found.mean.transfer_s, 1.5 * kMs, kNear);
  EXPECT_EQ(found.mean.waiting_s, 0);
}

/// The steps of one trace, which may be any JSON.
Explained explained_one(const nlohmann::json& made, int world = 2) {
  Explained result;
  const KinetoTrace trace = parse_kineto_trace(made.dump(), "made.json");
  result.ranks.push_back(stamp_steps(trace, trace.events.front().begin_ns));
  result.job = put_together({{0, "", result.ranks.front()}});
  result.breakdown = measure::break_down(result.job.stamps, static_cast<size_t>(world));
  return result;
}

std::vector<double> step_times_s(const Explained& found) {
  return found.breakdown.ranks.front().series.step_s;
}

TEST(StepsTest, work_that_was_launched_before_the_trace_is_of_no_step) {
  MadeJob made;
  made.device = made.profiler_steps = true;
  made.input_us = 0;
  nlohmann::json trace = made_traces(made)[0];
  // The host is in its third step when the trace begins, the device in its first.
  std::vector<double> begins;
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "ProfilerStep#5") begins.push_back(event["ts"].get<double>());
  }
  ASSERT_EQ(begins.size(), 1);
  std::erase_if(trace["traceEvents"].get_ref<nlohmann::json::array_t&>(), [&](const nlohmann::json& event) {
    return event["cat"] != "kernel" && event["ts"].get<double>() < begins.front();
  });
  const Explained found = explained_one(trace);
  EXPECT_EQ(found.breakdown.steps, 4);
  EXPECT_THAT(step_times_s(found), testing::Each(testing::DoubleNear(14 * kMs, kNear)));
  EXPECT_NEAR(found.rank(0).transfer_s, 1.5 * kMs, kNear);
  EXPECT_NEAR(found.job.work[0].exposed_s, 6 * kMs, 4 * kNear);
}

TEST(StepsTest, a_first_step_that_nothing_marks_is_left_out) {
  MadeJob made;
  made.loader = false;
  nlohmann::json trace = made_traces(made)[0];
  trace["traceEvents"].push_back({{"ph", "X"},
                                  {"cat", "cpu_op"},
                                  {"name", "aten::randn"},
                                  {"pid", 100},
                                  {"tid", 11},
                                  {"ts", 3e6},
                                  {"dur", 50}});
  const Explained found = explained_one(trace);
  EXPECT_EQ(found.breakdown.steps, 5);
  EXPECT_THAT(step_times_s(found), testing::Each(testing::DoubleNear(15 * kMs, kNear)));
  EXPECT_THAT(found.ranks[0].notes,
              testing::ElementsAre(testing::HasSubstr("nothing tells where it begins")));
}

TEST(StepsTest, a_first_step_with_the_start_of_something_in_it_is_left_out) {
  MadeJob made;
  made.profiler_steps = true;
  for (const double longer_us : {0.0, 5000.0}) {
    nlohmann::json trace = made_traces(made)[0];
    for (auto& event : trace["traceEvents"]) {
      if (event["ts"].get<double>() > 5e6 + made.input_us)
        event["ts"] = event["ts"].get<double>() + longer_us;
    }
    const Explained found = explained_one(trace);
    EXPECT_EQ(found.breakdown.steps, longer_us > 0 ? 5 : 6);
    EXPECT_NEAR(found.breakdown.mean.step_s, 15 * kMs, kNear);
  }
}

TEST(StepsTest, an_optimizer_that_computes_several_passes_has_all_of_its_call) {
  MadeJob made;
  made.world = 1;
  made.late_us = {0};
  made.loader = made.module = false;
  made.marked = true;
  made.passes = 4;
  made.optimizer = false;
  made.buckets = 0;
  nlohmann::json trace = made_traces(made)[0];
  const double step_us = 4 * 13000 + 500;
  for (int step = 0; step < 6; ++step)
    trace["traceEvents"].push_back({{"ph", "X"},
                                    {"cat", "user_annotation"},
                                    {"name", "Optimizer.step#LBFGS.step"},
                                    {"pid", 100},
                                    {"tid", 11},
                                    {"ts", 5e6 + step * step_us + 900},
                                    {"dur", step_us - 900}});
  const Explained found = explained_one(trace, 1);
  EXPECT_EQ(found.breakdown.steps, 6);
  EXPECT_EQ(found.ranks[0].passes, 4);
  EXPECT_EQ(found.ranks[0].batch, 4 * 32);
  EXPECT_NEAR(found.rank(0).optimizer_s, 1e-6 * (step_us - 900), 4 * kNear);
  EXPECT_NEAR(found.rank(0).forward_s + found.rank(0).backward_s, 0, kNear);
}

TEST(StepsTest, networks_that_are_trained_by_turns_have_forward_and_backward_passes_of_their_own) {
  MadeJob made;
  made.passes = 3;
  made.fetch_first = made.update_each_pass = made.marked = true;
  made.module = false;
  nlohmann::json trace = made_traces(made)[0];
  // One batch for all three.
  int loaded = 0;
  std::erase_if(trace["traceEvents"].get_ref<nlohmann::json::array_t&>(), [&](const nlohmann::json& event) {
    return event["name"].get<std::string>().starts_with("enumerate") && loaded++ % 3 > 0;
  });
  const Explained found = explained_one(trace);
  EXPECT_EQ(found.ranks[0].passes, 1);
  EXPECT_EQ(found.ranks[0].batch, 32);
  EXPECT_NEAR(found.rank(0).forward_s, 12 * kMs, 8 * kNear);
  EXPECT_NEAR(found.rank(0).backward_s, 24 * kMs, 8 * kNear);
  EXPECT_NEAR(found.rank(0).optimizer_s, 1.5 * kMs, 8 * kNear);
}

TEST(StepsTest, a_thread_that_waits_for_a_collective_exposes_it_wherever_it_stands) {
  MadeJob made;
  nlohmann::json trace = made_traces(made)[0];
  // In each forward pass a function of the script's sums up over ranks: 700 us, in which nothing else runs.
  const auto add = [&](const char* category, const char* name, int thread, double begin_us, double end_us) {
    trace["traceEvents"].push_back({{"ph", "X"},
                                    {"cat", category},
                                    {"name", name},
                                    {"pid", 100},
                                    {"tid", thread},
                                    {"ts", begin_us},
                                    {"dur", end_us - begin_us}});
  };
  for (auto& event : trace["traceEvents"]) {
    if (event["name"] == "aten::conv2d") event["dur"] = 3000;
  }
  for (int step = 0; step < 6; ++step) {
    const double at_us = 5e6 + step * 15000 + 1000 + 3000;
    add("cpu_op", "Joint", 11, at_us, at_us + 1000);
    add("cpu_op", "aten::clone", 11, at_us, at_us + 100);
    add("cpu_op", "c10d::allreduce_", 11, at_us + 100, at_us + 110);
    add("user_annotation", "gloo:all_reduce", 13, at_us + 110, at_us + 810);
    add("cpu_op", "aten::div", 11, at_us + 820, at_us + 1000);
  }
  const Explained found = explained_one(trace);
  EXPECT_EQ(found.breakdown.steps, 6);
  EXPECT_NEAR(found.rank(0).transfer_s, 2.2 * kMs, 2 * kNear);
  EXPECT_NEAR(found.rank(0).forward_s, 3.3 * kMs, 2 * kNear);
}

TEST(StepsTest, the_end_of_a_collective_that_is_written_late_stays_waiting) {
  MadeJob made;
  made.late_us = {0, 5000};
  std::vector<nlohmann::json> traces = made_traces(made);
  for (auto& event : traces[0]["traceEvents"]) {
    if (event["name"] == "gloo:all_reduce") event["dur"] = event["dur"].get<double>() + 400;
  }
  std::vector<PlacedSteps> placed;
  for (const auto& trace : traces) {
    const KinetoTrace read = parse_kineto_trace(trace.dump(), "made.json");
    placed.push_back({static_cast<int>(placed.size()), "a", stamp_steps(read, 1'700'000'005'000'000'000)});
  }
  const measure::Breakdown found = measure::break_down(put_together(placed).stamps);
  EXPECT_NEAR(found.ranks[0].mean.waiting_s, 5 * kMs, 0.1 * kMs);
}

TEST(StepsTest, ranks_that_exchange_nothing_need_no_common_step) {
  MadeJob made;
  made.buckets = 0;
  made.profiler_steps = true;
  std::vector<PlacedSteps> placed = placed_at(made, 1);
  for (RankStep& step : placed[1].steps.steps) step.number += 24;
  placed[1].steps.steps.pop_back();
  const JobSteps job = put_together(placed);
  EXPECT_EQ(job.stamps[0].steps.size(), 5);
  EXPECT_EQ(job.stamps[1].steps.size(), 5);
  EXPECT_THAT(job.collectives, testing::IsEmpty());
}

TEST(StepsTest, waits_for_the_device_are_those_within_steps_that_no_collective_explains) {
  MadeJob made;
  made.device = true;
  made.input_us = 0;
  nlohmann::json trace = made_traces(made)[0];
  int correlation = 100'000;
  const auto copy = [&](double begin_us, double end_us) {
    nlohmann::json event = trace["traceEvents"][0];
    event.update({{"cat", "cuda_runtime"},
                  {"name", "cudaMemcpyAsync"},
                  {"ts", begin_us},
                  {"dur", end_us - begin_us},
                  {"args", {{"correlation", ++correlation}}}});
    trace["traceEvents"].push_back(event);
    event.update({{"cat", "gpu_memcpy"},
                  {"name", "Memcpy DtoH (Device -> Pageable)"},
                  {"tid", 7},
                  {"ts", end_us - 20},
                  {"dur", 10}});
    trace["traceEvents"].push_back(event);
  };
  // The host is in its first step until 5,001,400 us: once while the device computes, once while it reduces
  // from 5,012,000 on, which the host's first step does not reach; and once behind its last step.
  copy(5e6 + 500, 5e6 + 900);
  copy(5e6 + 9000, 5e6 + 9500);
  const results::RecordedWork work = explained_one(trace).job.work.front();
  EXPECT_EQ(work.synchronizations, 1);
  EXPECT_NEAR(work.synchronized_s, 380e-6, 1e-6);
}

}  // namespace
}  // namespace lockstep::recordings
