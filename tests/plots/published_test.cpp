#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/measure/compare.h"
#include "lockstep/plots/curves.h"
#include "lockstep/results/tables/tables.h"

#include "plots/sample_records.h"

namespace lockstep::plots {
namespace {

const results::RunRecord& shipped(const std::string& name) {
  static const std::vector<NamedRecord> records = shipped_records();
  const auto found = std::ranges::find(records, name, &NamedRecord::name);
  if (found == records.end()) throw Error("no record " + name);
  return found->record;
}

/// The speed-ups of a published curve, to two decimals.
std::vector<double> speedups(const std::string& record, const std::string& label) {
  for (const Curve& curve : speedup_curves({{}, {{record, shipped(record)}}})) {
    if (curve.label != record + ": " + label) continue;
    std::vector<double> found;
    for (const CurvePoint& point : curve.points) found.push_back(std::round(point.value * 100) / 100);
    return found;
  }
  throw Error("no curve " + label);
}

TEST(PublishedTest, pytorch_throughput_reproduces_its_speedup_column) {
  const results::RunRecord& record = shipped("pytorch_throughput");
  ASSERT_EQ(record.runs.size(), 8U);
  for (const results::Run& run : record.runs) {
    EXPECT_NEAR(run.speedup.value(), run.stated_speedup.value(), 0.005) << run.ranks;
  }
  EXPECT_THAT(speedups("pytorch_throughput", "ddp"), testing::IsSupersetOf({7.32, 101.98}));
}

TEST(PublishedTest, theano_mpi_reproduces_the_five_curves_of_its_plot) {
  // t1 / (train + communication), worked out by hand from the notebook's table.
  const auto curve = [](const char* label) { return speedups("theano_mpi", label); };
  EXPECT_THAT(curve("googlenet, bsp, batch 32"), testing::ElementsAre(1.00, 1.97, 3.94, 7.53));
  EXPECT_THAT(curve("alexnet, bsp, batch 128"), testing::ElementsAre(1.00, 1.84, 3.62, 6.33));
  EXPECT_THAT(curve("vgg16, bsp, batch 16"), testing::ElementsAre(1.00, 1.89, 3.59, 5.29));
  EXPECT_THAT(curve("vgg16, bsp, batch 32"), testing::ElementsAre(1.00, 1.95, 3.74, 7.05));
  EXPECT_THAT(curve("resnet50, bsp, batch 64"), testing::ElementsAre(1.00, 2.02, 4.00, 7.89));
}

TEST(PublishedTest, theano_mpi_with_synchronization_is_slower) {
  const auto& runs = shipped("theano_mpi").runs;
  const auto alexnet = std::ranges::find_if(
      runs, [](const results::Run& run) { return run.model == "alexnet" && run.ranks == 8; });
  ASSERT_NE(alexnet, runs.end());
  EXPECT_NEAR(alexnet->speedup.value(), 20.50 / (2.63 + 0.61 + 3.03), 1e-9);
  EXPECT_NEAR(alexnet->images_per_s, 5120 / (2.63 + 0.61 + 3.03), 1e-9);
}

TEST(PublishedTest, styles_print_the_tables_of_their_sources) {
  EXPECT_THAT(results::render(shipped("theano_mpi"), {.style = "theano"}),
              testing::ContainsRegex("8  bsp +2.63 +0.61 +3.03 +6.27 +[0-9.]+ +3.27 +6.33"));
  EXPECT_THAT(results::render(shipped("pytorch_throughput"), {.style = "throughput"}),
              testing::ContainsRegex("128  ddp +8394.* +8640.* +4231.* +101.98"));
  EXPECT_THAT(results::render(shipped("tensorpack_p100"), {.style = "tensorpack"}),
              testing::HasSubstr("1612.0/1579.0/1551.0"));
  EXPECT_THAT(results::render(shipped("pytorch_ddp"), {.style = "ddp"}),
              testing::HasSubstr("2M/8G:  p50:  0.450s"));
}

TEST(PublishedTest, ddp_compares_with_the_row_without_ddp) {
  EXPECT_THAT(speedups("pytorch_ddp", "resnet50, ddp"), testing::ElementsAre(0.97, 1.88, 3.77, 7.46, 14.92));
  EXPECT_NEAR(shipped("pytorch_ddp").runs[0].images_per_s, 32 / 0.097, 1e-9);
}

TEST(PublishedTest, tensorpack_has_a_curve_for_each_way) {
  EXPECT_EQ(shipped("tensorpack_p100").runs.size(), 24U);
  EXPECT_THAT(speedups("tensorpack_p100", "replicated, input gpu"),
              testing::ElementsAre(1.00, 1.87, 3.52, 7.07));
  EXPECT_EQ(throughput_curves({{}, {{"v100", shipped("tensorpack_v100")}}}).size(), 5U);
  EXPECT_TRUE(speedup_curves({{}, {{"v100", shipped("tensorpack_v100")}}}).empty())
      << "the V100 rows have no row of one GPU";
}

TEST(PublishedTest, ddp_bucket_diff_contradicts_its_own_changes_in_10_of_40_places) {
  // Times are rounded to milliseconds, the changes of the source to a tenth of a percent.
  constexpr double kHalfMs = 0.0005, kHalfTenth = 0.05;
  const auto change_percent = [](double from_s, double to_s) {
    return measure::compare({{from_s}}, {{to_s}}, {}).change_percent();
  };
  std::vector<const results::Run*> base;
  for (const results::Run& run : shipped("pytorch_ddp").runs) {
    if (run.strategy == "ddp") base.push_back(&run);
  }
  std::ifstream table(LOCKSTEP_SOURCE_DIR "/data/published/sources/pytorch_ddp_bucket_diff.csv");
  std::string line;
  std::getline(table, line);
  std::set<std::string> inconsistent;
  for (const results::Run& test : shipped("pytorch_ddp_bucket_diff").runs) {
    std::getline(table, line);
    std::vector<std::string> fields;
    for (std::istringstream text(line); std::getline(text, line, ',');) fields.push_back(line);
    ASSERT_EQ(fields[0], test.model);
    const auto row = std::ranges::find_if(
        base, [&](const results::Run* run) { return run->model == test.model && run->ranks == test.ranks; });
    ASSERT_NE(row, base.end());
    const auto check = [&](const char* name, double from_s, double to_s, const std::string& stated) {
      if (std::stod(stated) < change_percent(from_s - kHalfMs, to_s + kHalfMs) - kHalfTenth ||
          std::stod(stated) > change_percent(from_s + kHalfMs, to_s - kHalfMs) + kHalfTenth)
        inconsistent.insert(fmt::format("{} {} {}", test.model, test.ranks, name));
    };
    check("p75", *(*row)->step_s.p75, *test.step_s.p75, fields[5]);
    check("p95", *(*row)->step_s.p95, *test.step_s.p95, fields[7]);
  }
  EXPECT_THAT(inconsistent,
              testing::UnorderedElementsAre("resnet101 1 p95", "resnet101 8 p75", "resnet101 8 p95",
                                            "resnet101 16 p75", "resnet101 16 p95", "resnext101_32x8d 1 p75",
                                            "resnext101_32x8d 2 p95", "resnext101_32x8d 4 p95",
                                            "resnext101_32x8d 8 p95", "resnext101_32x8d 16 p95"));
}

}  // namespace
}  // namespace lockstep::plots
