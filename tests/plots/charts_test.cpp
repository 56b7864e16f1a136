#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/stream_seed.h"
#include "lockstep/plots/chart.h"
#include "lockstep/results/record/baseline.h"

#include "golden/golden.h"
#include "plots/sample_records.h"
#include "plots/xml_check.h"

namespace lockstep::plots {
namespace {

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
  const Chart chart = charts().get(GetParam())(sources_of(small_record(), {shipped_records()[0]}), form);
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
  const Sources sources = sources_of(sweep_record());
  for (const auto& [name, draw] : charts().entries()) EXPECT_TRUE(draw(sources, {}).drawn()) << name;
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
  EXPECT_THAT(chart.description, testing::HasSubstr("pytorch_throughput: ddp: 102 times at 128 workers"));
  EXPECT_THAT(chart.markup, testing::HasSubstr("pytorch_throughput: ddp, 8 workers: 7.32 times"));
}

TEST(ChartsTest, published_records_can_be_drawn_alone) {
  Sources sources{{}, {shipped_records().back()}};
  results::complete(sources);
  const Chart chart = charts().get("speedup")(sources, {});
  ASSERT_TRUE(chart.drawn());
  EXPECT_THAT(chart.notes, testing::Contains(testing::HasSubstr("Published speed-ups are as stated")));
}

TEST(ChartsTest, a_curve_under_another_is_said) {
  const ChartForm form;
  const auto notes = [&](double slower) {
    return speedup_chart({{{"a", sweep_record()}, {"b", sweep_record(slower)}}, {}}, form).notes;
  };
  EXPECT_THAT(notes(0.9), testing::Contains("'ddp, b' lies under 'ddp, a': they are the same here."));
  results::RunRecord other = sweep_record();
  for (results::Run& run : other.runs) run.speedup = 0.9 * run.speedup.value_or(1);
  const Chart apart = speedup_chart({{{"a", sweep_record()}, {"b", other}}, {}}, form);
  EXPECT_THAT(apart.notes, testing::Not(testing::Contains(testing::HasSubstr("lies under"))));
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
    EXPECT_THAT(chart.markup, testing::HasSubstr("ddp, 4 workers")) << name;
    EXPECT_THAT(chart.markup, testing::Not(testing::HasSubstr("ddp, 8 workers"))) << name;
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
