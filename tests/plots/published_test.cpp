#include "lockstep/plots/published.h"

#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/measure/compare.h"
#include "lockstep/plots/published_columns.h"

#include "plots/sample_records.h"

namespace lockstep::plots {
namespace {

const PublishedTable& shipped(const std::string& name) {
  static const std::vector<PublishedTable> tables = shipped_tables();
  for (const PublishedTable& table : tables) {
    if (table.name == name) return table;
  }
  throw Error("no table " + name);
}

std::string field(const PublishedTable& table, const PublishedRow& row, const std::string& column) {
  return row.fields[std::ranges::find(table.columns, column) - table.columns.begin()];
}

TEST(PublishedTest, a_table_longer_than_any_publication_is_refused) {
  std::string text = "model,gpus,images_per_s\n";
  for (size_t i = 0; i < kMostPublishedRows; ++i) text += "m" + std::to_string(i) + ",1,10\n";
  EXPECT_EQ(parse_published(text, "t.csv").rows.size(), kMostPublishedRows);
  text += "one more,1,10\n";
  try {
    parse_published(text, "t.csv");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("t.csv: 1001 rows, and a table has 1000 at most"));
  }
}

TEST(PublishedTest, control_characters_of_a_field_are_replaced) {
  const PublishedTable table = parse_published("model,gpus,images_per_s\n\"a\x1b[1m\nb\",1,10\n", "t.csv");
  EXPECT_EQ(table.rows[0].fields[0], "a\uFFFD[1m b");
}

TEST(PublishedTest, time_is_left_out_only_where_ranks_wait) {
  const std::string rows = "model,gpus,train_s_per_5120_images,synchronisation_s_per_5120_images\n";
  EXPECT_FALSE(parse_published(rows + "a,1,10,0\na,2,5,0\n", "t.csv").leaves_out_time);
  EXPECT_TRUE(parse_published(rows + "a,1,10,0\na,2,5,1\n", "t.csv").leaves_out_time);
}

TEST(PublishedTest, a_measured_strategy_replaces_the_baseline_of_its_number_of_workers) {
  const PublishedTable table = parse_published(
      "model,setup,gpus,images_per_s\na,no ddp,1,10\na,ddp,2,19\na,no ddp,4,30\na,ddp,4,36\n", "t.csv");
  ASSERT_EQ(table.curves.size(), 1U);
  std::vector<double> rates;
  for (const size_t row : table.curves[0].rows) rates.push_back(table.rows[row].images_per_s.value());
  EXPECT_THAT(rates, testing::ElementsAre(10, 19, 36));
}

double rounded(double value, int decimals) {
  const double scale = std::pow(10, decimals);
  return std::round(value * scale) / scale;
}

const PublishedCurve& curve_of(const PublishedTable& table, const std::string& label) {
  const auto found = std::ranges::find(table.curves, label, &PublishedCurve::label);
  if (found == table.curves.end()) throw Error("no curve " + label);
  return *found;
}

std::vector<double> speedups(const PublishedTable& table, const std::string& label) {
  std::vector<double> found;
  for (size_t row : curve_of(table, label).rows) found.push_back(rounded(table.rows[row].speedup.value(), 2));
  return found;
}

TEST(PublishedTablesTest, pytorch_throughput_reproduces_its_speedup_column) {
  const PublishedTable& table = shipped("pytorch_throughput");
  ASSERT_EQ(table.rows.size(), 8U);
  for (const PublishedRow& row : table.rows) {
    EXPECT_DOUBLE_EQ(rounded(row.speedup.value(), 2), row.stated_speedup.value()) << row.workers;
  }
  EXPECT_THAT(speedups(table, ""), testing::Contains(7.32));
  EXPECT_THAT(speedups(table, ""), testing::Contains(101.98));
}

TEST(PublishedTablesTest, theano_mpi_reproduces_the_five_curves_of_its_plot) {
  // t1 / (train + communication), worked out by hand from the notebook's table.
  const PublishedTable& table = shipped("theano_mpi");
  EXPECT_EQ(table.curves.size(), 5U);
  EXPECT_THAT(speedups(table, "googlenet, batch 32"), testing::ElementsAre(1.00, 1.97, 3.94, 7.53));
  EXPECT_THAT(speedups(table, "alexnet, batch 128"), testing::ElementsAre(1.00, 1.84, 3.62, 6.33));
  EXPECT_THAT(speedups(table, "vgg16, batch 16"), testing::ElementsAre(1.00, 1.89, 3.59, 5.29));
  EXPECT_THAT(speedups(table, "vgg16, batch 32"), testing::ElementsAre(1.00, 1.95, 3.74, 7.05));
  EXPECT_THAT(speedups(table, "resnet50, batch 64"), testing::ElementsAre(1.00, 2.02, 4.00, 7.89));
}

TEST(PublishedTablesTest, theano_mpi_with_synchronisation_is_slower) {
  const PublishedTable& table = shipped("theano_mpi");
  EXPECT_TRUE(table.leaves_out_time);
  const PublishedRow& alexnet = table.rows[curve_of(table, "alexnet, batch 128").rows.back()];
  EXPECT_EQ(field(table, alexnet, "bound_to_numa_node"), "yes")
      << "the curve has the bound run, not the other one";
  EXPECT_NEAR(alexnet.honest_speedup.value(), 20.50 / (2.63 + 0.61 + 3.03), 1e-9);
  EXPECT_NEAR(alexnet.images_per_s.value(), 5120 / (2.63 + 0.61 + 3.03), 1e-9);
}

TEST(PublishedTablesTest, ddp_bucket_diff_reproduces_30_of_its_40_changes) {
  const PublishedTable& base = shipped("pytorch_ddp");
  const PublishedTable& diff = shipped("pytorch_ddp_bucket_diff");
  // Both tables are rounded to milliseconds, the changes to a tenth of a percent.
  constexpr double kHalfMs = 0.0005, kHalfTenth = 0.05;
  const auto change_percent = [](double from_s, double to_s) {
    return measure::compare({{from_s}}, {{to_s}}, {}).change_percent();
  };
  std::set<std::string> inconsistent;
  int reproduced = 0;
  for (const PublishedRow& test : diff.rows) {
    for (const PublishedRow& row : base.rows) {
      if (row.baseline || row.workers != test.workers ||
          field(base, row, "model") != field(diff, test, "model"))
        continue;
      for (const std::string percentile : {"p75", "p95"}) {
        const double from = std::stod(field(base, row, percentile + "_s")),
                     to = std::stod(field(diff, test, percentile + "_s"));
        const double stated = std::stod(field(diff, test, percentile + "_change_percent"));
        const double worst = change_percent(from - kHalfMs, to + kHalfMs),
                     best = change_percent(from + kHalfMs, to - kHalfMs);
        const bool allowed = worst - kHalfTenth <= stated && stated <= best + kHalfTenth;
        if (allowed) {
          ++reproduced;
        } else {
          inconsistent.insert(field(diff, test, "model") + " " + std::to_string(test.workers) + " " +
                              percentile);
        }
      }
    }
  }
  EXPECT_EQ(reproduced, 30);
  EXPECT_THAT(inconsistent,
              testing::UnorderedElementsAre("resnet101 1 p95", "resnet101 8 p75", "resnet101 8 p95",
                                            "resnet101 16 p75", "resnet101 16 p95", "resnext101_32x8d 1 p75",
                                            "resnext101_32x8d 2 p95", "resnext101_32x8d 4 p95",
                                            "resnext101_32x8d 8 p95", "resnext101_32x8d 16 p95"))
      << "these contradict the source's own times";
}

TEST(PublishedTablesTest, ddp_compares_with_the_row_without_ddp) {
  const PublishedTable& table = shipped("pytorch_ddp");
  EXPECT_EQ(table.curves.size(), 4U);
  EXPECT_THAT(speedups(table, "resnet50"), testing::ElementsAre(0.97, 1.88, 3.77, 7.46, 14.92));
  EXPECT_NEAR(table.rows[0].images_per_s.value(), 32 / 0.097, 1e-9);
}

TEST(PublishedTablesTest, tensorpack_has_a_curve_for_each_way) {
  const PublishedTable& table = shipped("tensorpack_multigpu");
  EXPECT_EQ(table.rows.size(), 37U);
  EXPECT_EQ(table.curves.size(), 13U);
  EXPECT_THAT(speedups(table, "P100, tensorpack, replicated, input gpu, fp32, batch 64"),
              testing::ElementsAre(1.00, 1.87, 3.52, 7.07));
  EXPECT_FALSE(table.rows.back().speedup.has_value()) << "the V100 rows have no row of one GPU";
}

std::string error_of(const std::string& text) {
  try {
    parse_published(text, "mine.csv");
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(PublishedReaderTest, names_file_line_and_column_of_a_mistake) {
  EXPECT_EQ(error_of("gpus,images_per_s\n1,10\n2,fast\n"),
            "mine.csv, line 3, column images_per_s: 'fast' is not a number");
  EXPECT_EQ(error_of("gpus,images_per_s\n1,nan\n"),
            "mine.csv, line 2, column images_per_s: 'nan' is not a number");
  EXPECT_EQ(error_of("gpus,images_per_s\n1,-3\n"),
            "mine.csv, line 2, column images_per_s: '-3' is not a number of zero or more");
  EXPECT_EQ(error_of("gpus,images_per_s\n\n0,10\n"),
            "mine.csv, line 3, column gpus: '0' is not a number of workers");
  EXPECT_EQ(error_of("gpus,images_per_s\n1.5,10\n"),
            "mine.csv, line 2, column gpus: '1.5' is not a number of workers");
  EXPECT_EQ(error_of("gpus,images_per_s\n1,10,20\n"),
            "mine.csv, line 2: 3 fields, but the first line names 2 columns");
  EXPECT_EQ(error_of("gpus,images_per_s\n1,\"10\n"), "mine.csv, line 2: a quoted field does not end");
  EXPECT_EQ(error_of("gpus,gpus,images_per_s\n"), "mine.csv, line 1, column 2: a second column 'gpus'");
  EXPECT_EQ(error_of("gpus,,images_per_s\n"), "mine.csv, line 1, column 2: a column without a name");
  EXPECT_EQ(error_of("model,images_per_s\n"),
            "mine.csv, line 1: no column for the number of workers among 'model', 'images_per_s'");
  EXPECT_EQ(error_of("gpus,model\n"),
            "mine.csv, line 1: no column that a speed follows from among 'gpus', 'model'");
  EXPECT_EQ(error_of("gpus,images_per_s\n"), "mine.csv: no row under the names of the columns");
  EXPECT_EQ(error_of(""), "mine.csv: the file is empty");
  EXPECT_THROW(read_published("/no/such/file.csv"), Error);
}

TEST(PublishedReaderTest, reads_a_table_of_ones_own) {
  const PublishedTable table = parse_published(
      "\xEF\xBB\xBFworkers,system,images_per_s\r\n4,\"a, \"\"b\"\"\",30\r\n1,\"a, \"\"b\"\"\",10\r\n1,c,\r\n",
      "dir/mine.csv");
  EXPECT_EQ(table.name, "mine");
  ASSERT_EQ(table.curves.size(), 2U);
  EXPECT_EQ(table.curves[0].label, "a, \"b\"");
  EXPECT_THAT(speedups(table, "a, \"b\""), testing::ElementsAre(1, 3));
  EXPECT_FALSE(table.rows[2].images_per_s.has_value()) << "not published";
}

TEST(PublishedReaderTest, a_step_that_takes_no_time_gives_no_rate) {
  const PublishedTable table = parse_published("gpus,p50_s,batch_per_gpu\n1,0,8\n2,0.5,8\n", "mine.csv");
  EXPECT_FALSE(table.rows[0].images_per_s.has_value());
  EXPECT_DOUBLE_EQ(table.rows[1].images_per_s.value(), 32);
}

TEST(CsvTextTest, counts_lines_inside_of_quotes) {
  const std::vector<CsvLine> lines = parse_csv("a,b\n\"x\ny\",1\nz,2", "f");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[1].fields, testing::ElementsAre("x y", "1"));
  EXPECT_EQ(lines[2].line, 4);
}

}  // namespace
}  // namespace lockstep::plots
