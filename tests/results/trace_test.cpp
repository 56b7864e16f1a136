#include "lockstep/results/files/trace.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "golden/golden.h"

namespace lockstep::results {
namespace {

/// Two steps of 8 ms on two ranks, the second 1 ms later in each phase and with a clock 100 s ahead.
TracedRow traced_row() {
  TracedRow row{"lenet5 ddp 2 ranks x 4", {}};
  for (int rank = 0; rank < 2; ++rank) {
    measure::RankStamps stamps{.steps = {}, .clock_offset_s = rank * 100.0, .clock_error_s = 1e-6};
    for (int step = 0; step < 2; ++step) {
      const double begin_s = 5 + rank * 100.0 + step * 0.008;
      const double late_s = rank * 0.001;
      stamps.steps.push_back({.begin_s = begin_s,
                              .input_s = begin_s + 0.0005,
                              .forward_s = begin_s + 0.002 + late_s,
                              .backward_s = begin_s + 0.005 + late_s,
                              .combined_s = begin_s + 0.007,
                              .applied_s = begin_s + 0.0075,
                              .end_s = begin_s + 0.008,
                              .collectives = {{1 << 20, begin_s + 0.003 + late_s, begin_s + 0.005},
                                              {512, begin_s + 0.0045 + late_s, begin_s + 0.0065}}});
    }
    row.ranks.push_back(std::move(stamps));
  }
  return row;
}

/// The same, its two buckets on lanes of their own.
TracedRow row_with_two_lanes() {
  TracedRow row = traced_row();
  for (measure::RankStamps& rank : row.ranks) {
    for (measure::StepStamps& step : rank.steps) step.collectives.back().lane = 1;
  }
  return row;
}

/// How many tracks there are; no two slices of one may overlap, but one may lie within another.
size_t checked_tracks(const std::string& trace_text) {
  const auto trace = nlohmann::json::parse(trace_text);
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> tracks;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    tracks[{event["pid"], event["tid"]}].emplace_back(event["ts"].get<double>(),
                                                      event["ts"].get<double>() + event["dur"].get<double>());
  }
  for (const auto& [track, slices] : tracks) {
    for (const auto& a : slices) {
      EXPECT_GE(a.first, -1e-6);
      for (const auto& b : slices) {
        const double slack_us = 1e-3;
        const bool apart = a.second <= b.first + slack_us || b.second <= a.first + slack_us;
        const bool nested = (a.first <= b.first + slack_us && b.second <= a.second + slack_us) ||
                            (b.first <= a.first + slack_us && a.second <= b.second + slack_us);
        EXPECT_TRUE(apart || nested) << a.first << ".." << a.second << " and " << b.first << ".." << b.second;
      }
    }
  }
  return tracks.size();
}

TEST(TraceTest, golden_file) {
  testing_golden::expect_golden("trace.json", to_trace({traced_row()}));
}

TEST(TraceTest, slices_of_a_track_nest_or_follow_each_other) {
  EXPECT_EQ(checked_tracks(to_trace({traced_row(), traced_row()})), 8u);
}

TEST(TraceTest, buckets_that_move_at_the_same_time_have_tracks_of_their_own) {
  const std::string trace = to_trace({row_with_two_lanes()});
  EXPECT_EQ(checked_tracks(trace), 6u);
  EXPECT_THAT(trace, testing::HasSubstr("rank 1 buckets, lane 2"));
}

TEST(TraceTest, kernels_have_a_track_per_stream_and_tell_the_gap_before_them) {
  TracedRow row = traced_row();
  row.ranks[0].kernels = {
      {"conv", 5.001, 5.002, 7}, {"copy", 5.0015, 5.003, 13}, {"relu", 5.0024, 5.0025, 7}};
  const std::string text = to_trace({row});
  EXPECT_EQ(checked_tracks(text), 6u);
  std::map<std::string, nlohmann::json> kernels;
  const auto trace = nlohmann::json::parse(text);
  for (const auto& event : trace["traceEvents"]) kernels[event["name"]] = event;
  EXPECT_NE(kernels["conv"]["tid"], kernels["copy"]["tid"]);
  EXPECT_EQ(kernels["conv"]["tid"], kernels["relu"]["tid"]);
  EXPECT_NEAR(kernels["conv"]["ts"], 1000, 1e-3);
  EXPECT_FALSE(kernels["conv"]["args"].contains("gap_us_before"));
  EXPECT_NEAR(kernels["relu"]["args"]["gap_us_before"], 400, 1e-3);
  EXPECT_THAT(text, testing::HasSubstr("rank 0 kernels, stream 13"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("rank 1 kernels")));
}

TEST(TraceTest, clocks_are_aligned_and_rows_follow_each_other) {
  const auto trace = nlohmann::json::parse(to_trace({traced_row(), traced_row()}));
  std::map<std::pair<int, int>, double> first_step_us;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["name"] == "step 1")
      first_step_us[{event["pid"], event["tid"]}] = event["ts"];
  }
  EXPECT_NEAR((first_step_us[{1, 1}]), 0, 1e-3);
  EXPECT_NEAR((first_step_us[{1, 3}]), 0, 1e-3);
  EXPECT_GT((first_step_us[{2, 1}]), 16000);
}

TEST(TraceTest, a_rank_that_waits_says_for_whom) {
  const std::string trace = to_trace({traced_row()});
  EXPECT_THAT(trace, testing::HasSubstr("waiting for rank 1"));
  EXPECT_THAT(trace, testing::Not(testing::HasSubstr("waiting for rank 0")));
}

TEST(TraceTest, a_rank_with_fewer_steps_is_not_waited_for_in_those_that_it_lacks) {
  TracedRow row = traced_row();
  row.ranks[1].steps.pop_back();
  EXPECT_NO_THROW(checked_tracks(to_trace({row})));
}

TEST(TraceTest, nothing_traced_is_an_empty_trace) {
  EXPECT_TRUE(nlohmann::json::parse(to_trace({}))["traceEvents"].empty());
  EXPECT_NO_THROW(to_trace({TracedRow{"empty", {measure::RankStamps{}}}}));
}

}  // namespace
}  // namespace lockstep::results
