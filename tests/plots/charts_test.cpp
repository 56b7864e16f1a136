#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/stream_seed.h"
#include "lockstep/plots/curves.h"
#include "lockstep/results/record/baseline.h"

#include "golden/golden.h"
#include "plots/sample_records.h"
#include "plots/xml_check.h"

namespace lockstep::plots {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Sources sources_of(results::RunRecord record, std::vector<NamedRecord> published = {}) {
  Sources sources{{{"run", std::move(record)}}, std::move(published)};
  results::complete(sources);
  return sources;
}

/// The intervals of the last run are as wide as those of two launches may be.
results::RunRecord with_a_wide_interval() {
  results::RunRecord record = sweep_record();
  results::Run& run = record.runs.back();
  run.rate_interval = results::Interval{run.images_per_s / 30, run.images_per_s * 30, ""};
  for (results::Run& each : record.runs) each.speedup_interval.reset();
  results::assign_speedup_intervals(record);
  return record;
}

class ChartTest : public testing::TestWithParam<std::string> {};

std::string name_of(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

TEST_P(ChartTest, looks_as_it_did) {
  const ChartForm form{.id = GetParam()};
  Chart chart = charts().get(GetParam())(sources_of(small_record(), {shipped_records()[0]}), form);
  if (!chart.drawn()) {
    chart =
        charts().get(GetParam())({{{"buckets", bucket_record()}, {"training", training_record()}}, {}}, form);
  }
  testing_golden::expect_golden("plots/" + GetParam() + ".svg", standalone_svg(chart, form));
}

/// Two records beside a published one; milliseconds, with steps that are far out on either side.
Sources two_records() {
  results::RunRecord record = sweep_record(0.02);
  for (double& step_s : record.runs.front().samples.at(1)) step_s *= 30;
  for (double& step_s : record.runs.front().samples.at(2)) step_s *= 0.1;
  return {{{"sweep", std::move(record)}, {"networks", networks_record()}}, {shipped_records().back()}};
}

/// A record whose runs have so many steps.
results::RunRecord with_steps(size_t count) {
  results::RunRecord record = networks_record();
  for (results::Run& run : record.runs) run.samples.resize(std::min(count, run.samples.size()));
  return record;
}

// Hashes, where pictures would take megabytes. To see what changed, draw the chart before and after.
TEST_P(ChartTest, of_any_record_is_the_one_that_it_was) {
  const std::vector<NamedRecord> tables = shipped_records();
  const std::vector<std::pair<std::string, Sources>> all{
      {"plain", sources_of(plain_record(), tables)},
      {"crowded", sources_of(crowded_record())},
      {"huge", sources_of(huge_record(100))},
      {"broken", sources_of(broken_record())},
      {"one step", sources_of(with_steps(1))},
      {"five steps", sources_of(with_steps(5))},
      {"wide interval", sources_of(with_a_wide_interval())},
      {"no record", {{}, tables}},
      {"two records", two_records()},
  };
  std::string text;
  for (const auto& [name, sources] : all) {
    const ChartForm form{.id = GetParam()};
    const Chart chart = charts().get(GetParam())(sources, form);
    const std::string svg = chart.drawn() ? inline_svg(chart, form) : chart.advice;
    text += fmt::format("{}: {:016x} {} bytes, {} notes\n", name, stream_seed(0, svg), svg.size(),
                        chart.notes.size());
    for (const std::string& note : chart.notes) text += "  " + note + '\n';
  }
  testing_golden::expect_golden("plots/hashes_" + GetParam() + ".txt", text);
}

TEST_P(ChartTest, is_well_formed_for_any_record) {
  std::vector<NamedRecord> tables = shipped_records();
  const std::vector<Sources> all{sources_of(sweep_record(), tables),
                                 sources_of(plain_record()),
                                 sources_of(crowded_record()),
                                 sources_of(huge_record(10000)),
                                 sources_of(broken_record()),
                                 sources_of({}),
                                 {},
                                 {{}, tables}};
  for (size_t i = 0; i < all.size(); ++i) {
    for (double width : {kNarrowestChart, kChartWidth, 1500.0}) {
      const ChartForm form{width, GetParam()};
      const Chart chart = charts().get(GetParam())(all[i], form);
      if (!chart.drawn()) {
        EXPECT_FALSE(chart.advice.empty());
        continue;
      }
      for (const std::string& svg : {inline_svg(chart, form), standalone_svg(chart, form)}) {
        EXPECT_EQ(xml_fault(svg), "") << "sources " << i;
        EXPECT_LT(svg.size(), 150'000U) << "sources " << i;
        EXPECT_EQ(svg.find("nan"), std::string::npos) << "sources " << i;
        EXPECT_EQ(svg.find("inf "), std::string::npos) << "sources " << i;
        EXPECT_NE(svg.find("<desc "), std::string::npos);
      }
      EXPECT_GT(chart.height, 60);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ChartTest, testing::ValuesIn(charts().names()), name_of);

TEST(ChartsTest, are_all_drawn_for_a_full_record) {
  Sources sources = sources_of(bucket_record());
  sources.records.push_back({"training", training_record()});
  for (const auto& [name, draw] : charts().entries()) EXPECT_TRUE(draw(sources, {}).drawn()) << name;
}

/// The shapes and colors of the samples in a legend, which come before all other marks.
std::vector<std::string> samples_in(const Chart& chart) {
  std::vector<std::string> samples;
  const size_t end = chart.markup.find("stroke-dasharray=\"1.5 3\"");
  for (size_t at = chart.markup.find("<path d=\"M"); at < end;
       at = chart.markup.find("<path d=\"M", at + 1)) {
    const std::string path = chart.markup.substr(at, chart.markup.find('>', at) - at);
    const size_t place = path.find(" transform");
    if (place == std::string::npos) continue;
    samples.push_back(path.substr(0, place) + path.substr(path.find(" fill")));
  }
  return samples;
}

TEST(ChartsTest, no_two_curves_have_the_same_color_and_mark) {
  for (const Sources& sources :
       {sources_of(bucket_record()), sources_of(crowded_record(), shipped_records()),
        sources_of({}, shipped_records()), Sources{{{"a", sweep_record()}, {"b", sweep_record()}}, {}}}) {
    std::vector<std::string> samples = samples_in(speedup_chart(sources, {}));
    EXPECT_GE(samples.size(), 4U);
    samples.resize(std::min(samples.size(), sources.records.size() == 2 ? 4 : kMostCurves));
    std::ranges::sort(samples);
    EXPECT_EQ(std::ranges::adjacent_find(samples), samples.end()) << *std::ranges::adjacent_find(samples);
  }
}

TEST(ChartsTest, names_are_whole_at_every_width) {
  Sources sources{{{"base", sweep_record()}, {"test", sweep_record(0.9)}}, shipped_records()};
  for (results::Run& run : sources.records[1].record.runs) run.bucket_mb = 1;
  for (const double width : {kNarrowestChart, kChartWidth}) {
    for (const auto& [name, draw] : charts().entries())
      EXPECT_THAT(draw(sources, {.width = width}).markup, Not(HasSubstr("…"))) << name;
    const std::string markup = throughput_chart(sources, {.width = width}).markup;
    EXPECT_THAT(markup, AllOf(HasSubstr(">ddp, buckets of 25 MiB, base<"),
                              HasSubstr(">ddp, buckets of 1 MiB, test<")));
  }
}

TEST(ChartsTest, a_sweep_over_a_setting_is_drawn_over_it) {
  const Chart chart = setting_chart(sources_of(bucket_record()), {});
  EXPECT_EQ(chart.title, "Throughput against bucket");
  EXPECT_THAT(chart.markup, AllOf(HasSubstr(">bucket in MiB (log scale)<"), HasSubstr("bucket 0.1 MiB: "),
                                  HasSubstr("independent (control): "), HasSubstr("horovod: ")));
  EXPECT_THAT(setting_chart(sources_of(sweep_record()), {}).missing, HasSubstr("three values"));
}

TEST(ChartsTest, rates_have_the_unit_of_the_network) {
  results::RunRecord record = sweep_record();
  for (results::Run& run : record.runs) run.unit = "sequence";
  const Chart chart = throughput_chart(sources_of(record), {});
  EXPECT_THAT(chart.markup, AllOf(HasSubstr(">sequences per second<"), HasSubstr(" sequences/s ("),
                                  Not(HasSubstr("image"))));
  EXPECT_THAT(chart.description, AllOf(HasSubstr("sequences/s"), Not(HasSubstr("image"))));
}

TEST(ChartsTest, the_buckets_are_those_of_the_headline) {
  results::RunRecord record = networks_record();
  const Sources sources = sources_of(record);
  EXPECT_THAT(charts().get("buckets")(sources, {}).title, HasSubstr("mlp, replicated, 2 ranks"));
}

/// The upper edges of the boxes with a text in their tooltips.
std::set<std::string> edges_of(const std::string& markup, const std::string& tooltip) {
  std::set<std::string> edges;
  for (size_t at = markup.find(tooltip); at != std::string::npos; at = markup.find(tooltip, at + 1)) {
    const size_t edge = markup.find(" y=\"", markup.rfind("<rect", at)) + 4;
    edges.insert(markup.substr(edge, markup.find('"', edge) - edge));
  }
  return edges;
}

TEST(ChartsTest, buckets_that_overlap_lie_in_lanes_of_their_own) {
  results::RunRecord record = huge_record(1);
  auto& buckets = record.runs[0].breakdown->ranks[0].buckets;
  buckets = {{1, 0, 0, 0, 4}, {1, 1, 1, 1, 3}, {1, 3.5, 4, 4, 5}, {1, 2, 2, 2, 6}};
  EXPECT_EQ(edges_of(buckets_chart(sources_of(record), {}).markup, "<title>bucket ").size(), 3U);
  buckets.insert(buckets.end(), 20, {1, 2, 2, 2, 6});
  EXPECT_EQ(edges_of(buckets_chart(sources_of(record), {}).markup, "<title>bucket ").size(), 4U);
}

TEST(ChartsTest, of_many_ranks_the_buckets_of_eight_are_drawn_and_of_the_slowest) {
  const std::string markup = buckets_chart(sources_of(huge_record(9999)), {}).markup;
  EXPECT_THAT(markup,
              AllOf(HasSubstr(">rank 0<"), HasSubstr(">rank 3333 (slowest)<"), HasSubstr(">rank 9998<")));
  size_t ranks = 0;
  for (size_t at = markup.find(">rank "); at != std::string::npos; at = markup.find(">rank ", at + 1))
    ++ranks;
  EXPECT_EQ(ranks, 9U);
}

TEST(ChartsTest, buckets_of_a_recording_of_some_ranks_have_their_numbers) {
  results::RunRecord record = huge_record(2);
  record.runs[0].recorded = results::Recorded{.ranks = {1, 3}};
  record.runs[0].breakdown->straggler = 1;
  EXPECT_THAT(buckets_chart(sources_of(record), {}).markup,
              AllOf(HasSubstr(">rank 1 (slowest)<"), HasSubstr(">rank 3<")));
}

TEST(ChartsTest, launches_count_alike_in_the_median_of_a_distribution) {
  results::RunRecord record = huge_record(1);
  results::Run& run = record.runs[0];
  run.samples.assign(60, {1.0});
  run.samples.resize(70, {2.0});
  run.launch_steps = {60, 10};
  run.step_s.p50 = std::sqrt(2.0);
  EXPECT_THAT(distribution_chart(sources_of(record), {}).description, HasSubstr("median 1.41"));
}

TEST(ChartsTest, a_speed_up_over_two_ranks_is_perfect_at_half_the_ranks) {
  results::RunRecord record = sweep_record();
  record.baseline_strategy = "ddp";
  record.baseline_ranks = 2;
  results::assign_baselines(record);
  const Chart chart = speedup_chart(sources_of(record), {});
  EXPECT_THAT(chart.description, HasSubstr("faster than 2 ranks with ddp"));
  EXPECT_THAT(chart.markup, AllOf(HasSubstr("times 2 ranks with ddp"), HasSubstr(">0.5<")));
}

TEST(ChartsTest, a_long_series_keeps_its_extremes) {
  results::RunRecord record = huge_record(1);
  record.runs[0].samples.assign(100'000, {1.0});
  record.runs[0].samples[77'777] = {9};
  const std::string markup = series_chart(sources_of(record), {}).markup;
  EXPECT_THAT(markup, HasSubstr("step 77,777: 9.00"));
  EXPECT_LT(markup.size(), 30'000U);
}

TEST(ChartsTest, whiskers_at_one_place_stand_side_by_side) {
  const auto places_of = [](double slower) {
    Sources sources{{{"base", sweep_record()}, {"test", sweep_record(slower)}}, {}};
    for (NamedRecord& named : sources.records)
      std::erase_if(named.record.runs,
                    [](const results::Run& run) { return run.ranks != 8 || run.strategy != "ddp"; });
    const std::string markup = throughput_chart(sources, {}).markup;
    std::set<std::string> places;
    for (size_t at = markup.find("<path d=\"M"); at != std::string::npos;
         at = markup.find("<path d=\"M", at + 1)) {
      const std::string path = markup.substr(at, markup.find('>', at) - at);
      if (path.find("stroke-width=\"1.5\"") != std::string::npos && path.find('V') != std::string::npos)
        places.insert(path.substr(10, path.find(' ', 10) - 10));
    }
    return places.size();
  };
  EXPECT_EQ(places_of(1.001), 2U);
}

TEST(ChartsTest, of_a_training_are_its_loss_and_its_accuracy) {
  const Sources sources{{{"a", training_record()}}, {}};
  EXPECT_THAT(loss_chart(sources, {}).markup, HasSubstr("evaluation, epoch 2: 1.20"));
  EXPECT_THAT(accuracy_chart(sources, {}).markup, HasSubstr("training, epoch 3: 75.0 %"));
}

TEST(ChartsTest, say_how_to_get_what_is_missing) {
  const Sources sources = sources_of(plain_record());
  for (const char* name : {"phases", "buckets"}) {
    const Chart chart = charts().get(name)(sources, {});
    ASSERT_FALSE(chart.drawn()) << name;
    EXPECT_THAT(chart.advice, testing::HasSubstr("lockstep bench --breakdown")) << name;
  }
  EXPECT_FALSE(charts().get("memory")(sources, {}).drawn());
}

TEST(ChartsTest, an_unknown_name_is_answered_with_the_nearest) {
  EXPECT_THAT([] { charts().get("speedupp"); },
              testing::ThrowsMessage<ConfigError>(testing::HasSubstr("speedup")));
}

TEST(ChartsTest, speedup_has_the_published_curve_beside_the_own) {
  const Chart chart = charts().get("speedup")(sources_of(sweep_record(), {shipped_records()[0]}), {});
  EXPECT_THAT(chart.description, testing::HasSubstr("pytorch_throughput: ddp: 102 times at 128 ranks"));
  EXPECT_THAT(chart.markup, testing::HasSubstr("pytorch_throughput: ddp, 8 ranks: 7.32 times"));
}

TEST(ChartsTest, a_forecast_goes_on_where_its_curve_ends) {
  Sources sources = sources_of(sweep_record(), {shipped_records()[0]});
  sources.forecasts = {sample_forecast(sources.records[0].record)};
  const Chart chart = speedup_chart(sources, {});
  EXPECT_THAT(chart.markup,
              AllOf(HasSubstr("ddp, 16 ranks, predicted: "), HasSubstr("ddp, 64 ranks, predicted: "),
                    Not(HasSubstr("ddp, 8 ranks, predicted: ")), HasSubstr("<polygon ")));
  EXPECT_THAT(chart.description, AllOf(HasSubstr(" Predicted: "), HasSubstr(" at 64 ranks.")));
  EXPECT_THAT(chart.notes, testing::Contains(HasSubstr("`lockstep predict`")));
  sources.forecasts[0].front().speedup *= 1.001;
  const Chart other = speedup_chart(sources, {});
  EXPECT_THAT(other.markup + other.description, Not(HasSubstr("redicted"))) << "it is that of another curve";
  sources.forecasts.clear();
  EXPECT_EQ(speedup_chart(sources, {}).markup, other.markup);
}

TEST(ChartsTest, published_records_can_be_drawn_alone) {
  Sources sources{{}, {shipped_records().back()}};
  results::complete(sources);
  const Chart chart = charts().get("speedup")(sources, {});
  ASSERT_TRUE(chart.drawn());
  EXPECT_THAT(chart.notes, testing::Contains(testing::HasSubstr("Published speed-ups are as stated")));
}

TEST(ChartsTest, a_wide_interval_ends_in_an_arrow_and_leaves_the_axis_to_the_points) {
  const ChartForm form;
  for (const char* name : {"speedup", "throughput"}) {
    const Chart narrow = charts().get(name)(sources_of(sweep_record()), form);
    const Chart wide = charts().get(name)(sources_of(with_a_wide_interval()), form);
    EXPECT_THAT(wide.notes, testing::Contains(testing::HasSubstr("end in an arrow"))) << name;
    EXPECT_THAT(narrow.notes, testing::Not(testing::Contains(testing::HasSubstr("arrow")))) << name;
    EXPECT_THAT(wide.markup, testing::Not(testing::HasSubstr(">128<"))) << name;
    EXPECT_THAT(wide.markup, testing::Not(testing::HasSubstr(">0.0"))) << name;
  }
}

TEST(ChartsTest, an_unfinished_run_is_drawn_among_steps_but_not_among_rates) {
  results::RunRecord record = sweep_record();
  const auto last = std::ranges::find_if(
      record.runs, [](const results::Run& run) { return run.strategy == "ddp" && run.ranks == 8; });
  ASSERT_NE(last, record.runs.end());
  last->unfinished = "rank 1 was killed";
  results::assign_baselines(record);
  const Sources sources = sources_of(record);
  for (const char* name : {"speedup", "throughput"}) {
    const Chart chart = charts().get(name)(sources, {});
    EXPECT_THAT(chart.markup, testing::HasSubstr("ddp, 4 ranks")) << name;
    EXPECT_THAT(chart.markup, testing::Not(testing::HasSubstr("ddp, 8 ranks"))) << name;
  }
  EXPECT_THAT(charts().get("distribution")(sources, {}).markup,
              testing::HasSubstr("ddp (unfinished), 8 ranks"));
}

TEST(ChartsTest, steps_of_very_different_lengths_have_a_logarithmic_axis) {
  const auto axis = [](double slower) {
    results::RunRecord record = small_record();
    for (std::vector<double>& step : record.runs.back().samples) {
      for (double& rank : step) rank *= slower;
    }
    return charts().get("distribution")(sources_of(record), {}).markup;
  };
  EXPECT_THAT(axis(1), testing::Not(testing::HasSubstr("(log scale)")));
  EXPECT_THAT(axis(100), testing::HasSubstr("(log scale)"));
}

TEST(ChartsTest, a_few_steps_far_out_on_either_side_do_not_squeeze_the_hills) {
  results::RunRecord record = sweep_record();
  for (std::vector<double>* step : {&record.runs[0].samples[1], &record.runs[0].samples[2]}) {
    for (double& rank : *step) rank *= step == &record.runs[0].samples[1] ? 0.01 : 100;
  }
  const Chart chart = charts().get("distribution")(sources_of(record), {});
  EXPECT_THAT(chart.notes, testing::Contains("2 steps far beyond the rest are not in the hills."));
}

}  // namespace
}  // namespace lockstep::plots
