#include "golden/golden.h"

#include "lockstep/results/files/record_json.h"
#include "lockstep/results/record/training_record.h"
#include "lockstep/results/tables/tables.h"

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

using testing_golden::expect_golden;
using testing_golden::matches;

TEST(GoldenTest, gpu_header_and_tables) {
  expect_golden("gpu.txt", header_text(gpu_record()) + '\n' + to_text(gpu_tables(gpu_record())));
}

TEST(GoldenTest, json_file) {
  expect_golden("record.json", to_json(small_record()));
}

// Spreadsheets compute what begins like a formula.
TEST(CsvTest, texts_that_begin_like_a_formula_are_marked_and_numbers_are_not) {
  RunRecord record = sweep_record();
  record.runs.resize(1);
  record.runs[0].model = "=HYPERLINK(\"http://x\",1)";
  record.runs[0].precision = "@x";
  record.runs[0].strategy_options = "--wire bf16";
  record.runs[0].loss_last = -2.5;
  const std::string csv = to_csv(record);
  EXPECT_NE(csv.find("\n\"'=HYPERLINK(\"\"http://x\"\",1)\","), std::string::npos) << csv;
  EXPECT_NE(csv.find(",'@x,"), std::string::npos) << csv;
  EXPECT_NE(csv.find(",'--wire bf16,"), std::string::npos) << csv;
  EXPECT_NE(csv.find(",-2.5,"), std::string::npos) << csv;
}

TEST(GoldenTest, csv_file_of_a_record_with_everything) {
  expect_golden("everything.csv", to_csv(small_record()) + to_csv(gpu_record()));
}

TEST(GoldenTest, training_and_what_it_prints_as_it_goes) {
  TrainingRecord record{.lockstep_version = "0.1.0",
                        .torch_version = "2.11.0",
                        .host = "node1",
                        .command = {"lockstep", "train", "--epochs", "2"},
                        .backend = "gloo",
                        .launch = "processes",
                        .threads_per_rank = 2,
                        .kernel_detail = "fused (oneDNN 3.2.0, avx512_core)",
                        .settings = {{"network", "lenet5"}, {"strategy", "ddp"}},
                        .resumed_at_step = 47,
                        .parameters_hash = "00ff",
                        .incomplete = ""};
  record.epochs = {{.epoch = 1,
                    .steps = 47,
                    .learning_rate = 0.05,
                    .loss = 2.25,
                    .training_accuracy = 0.125,
                    .evaluation_loss = 1.5,
                    .evaluation_accuracy = 0.9375,
                    .images_per_s = std::nullopt},
                   {.epoch = 2,
                    .steps = 94,
                    .learning_rate = 1.25e-9,
                    .loss = 0.5,
                    .training_accuracy = 1,
                    .evaluation_loss = std::nullopt,
                    .evaluation_accuracy = std::nullopt,
                    .images_per_s = 1234.5}};
  std::string text = to_json(record);
  for (const bool evaluated : {true, false}) {
    text += epochs_head(evaluated, "sequence");
    for (const EpochRecord& epoch : record.epochs) text += epoch_line(epoch, evaluated);
  }
  expect_golden("training.txt", text);
}

TEST(GoldenTest, placeholders_stand_for_what_they_name_only) {
  EXPECT_TRUE(matches("p50: {{number}}s", "p50:   0.125s"));
  EXPECT_TRUE(matches("(a) {{any}}.", "(a) whatever 1."));
  EXPECT_FALSE(matches("p50: {{number}}s", "p50: -s"));
  EXPECT_FALSE(matches("p50: {{number}}s", "p75: 0.125s"));
  EXPECT_FALSE(matches("a.b", "a,b"));
}

}  // namespace
}  // namespace lockstep::results
