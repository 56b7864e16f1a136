#include "lockstep/plots/curves.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden/golden.h"
#include "plots/sample_records.h"

namespace lockstep::plots {
namespace {

std::vector<std::string> curve_labels(const std::vector<Curve>& curves) {
  std::vector<std::string> found;
  for (const Curve& curve : curves) found.push_back(curve.label);
  return found;
}

TEST(CurvesTest, are_named_by_what_varies_only) {
  const Sources one{{{"a", sweep_record()}}, {}};
  EXPECT_THAT(curve_labels(speedup_curves(one)), testing::ElementsAre("ddp", "independent (control)"));
  const Sources two{{{"a", sweep_record()}, {"b", sweep_record()}}, {}};
  EXPECT_THAT(
      curve_labels(speedup_curves(two)),
      testing::ElementsAre("ddp, a", "ddp, b", "independent (control), a", "independent (control), b"));
  const Sources crowded{{{"a", crowded_record()}}, {}};
  EXPECT_THAT(curve_labels(speedup_curves(crowded)),
              testing::Contains("vgg16, data_parallel, buckets of 1 MiB"));
}

TEST(CurvesTest, have_the_rates_and_intervals_of_their_runs) {
  const Sources sources{{{"a", sweep_record()}}, {}};
  const Curve ddp = throughput_curves(sources).front();
  ASSERT_EQ(ddp.points.size(), 4U);
  EXPECT_EQ(ddp.points[3].x, 8);
  const results::Run& run = sources.records[0].record.runs[7 - 1];
  ASSERT_EQ(run.ranks, 8);
  EXPECT_DOUBLE_EQ(ddp.points[3].value, run.images_per_s);
  EXPECT_DOUBLE_EQ(ddp.points[3].interval->first, run.rate_interval->low);
  EXPECT_DOUBLE_EQ(ddp.points[3].interval->second, run.rate_interval->high);
}

TEST(CurvesTest, of_all_records_and_published_tables_are_as_they_were) {
  Sources sources{{{"sweep", sweep_record()}, {"networks", networks_record()}, {"crowded", crowded_record()}},
                  shipped_records()};
  results::complete(sources);
  std::string text;
  for (const auto& curves : {throughput_curves(sources), speedup_curves(sources)}) {
    for (const Curve& curve : curves) {
      text += fmt::format("{} | {} | {} | {}:", curve.label, curve.model, curve.strategy,
                          static_cast<int>(curve.kind));
      for (const CurvePoint& point : curve.points) {
        text += fmt::format(" {}: {:.5g}", point.x, point.value);
        if (point.interval)
          text += fmt::format(" [{:.5g}, {:.5g}]", point.interval->first, point.interval->second);
      }
      text += '\n';
    }
  }
  testing_golden::expect_golden("plots/curves.txt", text);
}

TEST(CurvesTest, strong_scaling_is_one_curve) {
  Sources sources{{{"a", {}}}, {}};
  for (int ranks : {1, 2, 4}) {
    results::Run run;
    run.model = "lenet5";
    run.strategy = "ddp";
    run.ranks = ranks;
    run.global_batch = 64;
    run.batch_per_rank = 64 / ranks;
    run.images_per_s = 100.0 * ranks;
    sources.records[0].record.runs.push_back(run);
  }
  ASSERT_EQ(throughput_curves(sources).size(), 1U);
  EXPECT_EQ(throughput_curves(sources)[0].points.size(), 3U);
  sources.records[0].record.runs[2].global_batch = 0;
  EXPECT_EQ(throughput_curves(sources).size(), 2U) << "two batches, two curves";
}

TEST(CurvesTest, published_ones_find_room_beside_own) {
  const Sources sources{{{"a", crowded_record()}}, {shipped_records()[0]}};
  std::vector<std::string> notes;
  const std::vector<Curve> chosen = most_telling(speedup_curves(sources), notes);
  EXPECT_EQ(chosen.size(), kMostCurves);
  EXPECT_THAT(curve_labels(chosen), testing::Contains("pytorch_throughput: ddp"));
  EXPECT_EQ(notes.size(), 1U);
}

TEST(CurvesTest, the_reference_is_always_among_them) {
  std::vector<std::string> notes;
  const auto curves = throughput_curves({{{"a", bucket_record()}}, {shipped_records()[0]}});
  ASSERT_GT(curves.size(), kMostCurves);
  EXPECT_THAT(curve_labels(most_telling(curves, notes)), testing::Contains("independent (control)"));
}

TEST(CurvesTest, have_each_another_name) {
  results::RunRecord batches = sweep_record();
  for (size_t i = batches.runs.size() - 3; i < batches.runs.size(); ++i) batches.runs[i].batch_per_rank = 16;
  // Two controls of two batches, of which one alone has a strategy.
  std::erase_if(batches.runs,
                [](const results::Run& run) { return run.strategy == "ddp" && run.batch_per_rank == 16; });
  const std::vector<std::string> twice = results::display_names({"x.json", "x.json"});
  for (const Sources& sources : {Sources{{{"a", batches}}, {}},
                                 Sources{{{twice[0], sweep_record()}, {twice[1], sweep_record()}}, {}}}) {
    std::vector<std::string> labels = curve_labels(throughput_curves(sources));
    std::ranges::sort(labels);
    EXPECT_EQ(std::ranges::adjacent_find(labels), labels.end()) << *std::ranges::adjacent_find(labels);
  }
}

TEST(CurvesTest, a_size_of_images_that_each_network_has_is_not_in_the_names) {
  results::RunRecord record = networks_record();
  for (results::Run& run : record.runs) run.image_size = run.model == "mlp" ? 28 : 224;
  EXPECT_THAT(curve_labels(throughput_curves({{{"a", record}}, {}})), testing::Contains("mlp, ddp"));
  record.runs.back().image_size = 32;
  EXPECT_THAT(curve_labels(throughput_curves({{{"a", record}}, {}})),
              testing::Contains("mlp, ddp, images of 28"));
}

TEST(CurvesTest, of_publications_alone_have_short_names) {
  Sources sources{{}, shipped_records()};
  results::complete(sources);
  EXPECT_THAT(curve_labels(throughput_curves(sources)),
              testing::IsSupersetOf({"pytorch_throughput: ddp", "tensorpack_p100: replicated, input cpu"}));
}

TEST(CurvesTest, a_setting_that_a_file_lacks_is_not_in_the_names) {
  results::RunRecord lacking = sweep_record();
  for (results::Run& run : lacking.runs) run.memory_format = "";
  EXPECT_THAT(curve_labels(speedup_curves({{{"a", sweep_record()}, {"b", lacking}}, {}})),
              testing::IsSupersetOf({"ddp, a", "ddp, b"}));
}

TEST(SourcesTest, files_of_one_name_are_told_apart) {
  EXPECT_THAT(results::display_names({"a/x.json", "b/y.json"}), testing::ElementsAre("x", "y"));
  EXPECT_THAT(results::display_names({"a/x.json", "b/x.json"}), testing::ElementsAre("a/x.json", "b/x.json"));
}

}  // namespace
}  // namespace lockstep::plots
