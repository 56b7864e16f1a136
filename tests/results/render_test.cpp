#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/tables.h"

#include "golden/golden.h"
#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// ddp at 1, 2 and 4 ranks with both controls, all with phases.
RunRecord explained_record() {
  RunRecord record = sweep_record();
  std::erase_if(record.runs, [](const Run& run) { return run.model != "resnet50"; });
  for (Run& run : record.runs) {
    const bool shares = run.strategy == "ddp" && run.ranks > 1;
    // Binary fractions of the step, so that the sums are the same with any compiler.
    const double step_s = 0.53125;
    run.breakdown = breakdown_of(run.ranks, step_s, shares ? step_s / 16 : 0, shares ? step_s / 8 : 0);
    if (!shares) run.breakdown->straggler.reset();
  }
  assign_factors(record);
  return record;
}

/// Two strategies, two inputs, two precisions.
RunRecord inputs_record() {
  RunRecord record = described_record();
  record.strategies = {"ddp", "sharded"};
  for (const char* precision : {"fp32", "bf16"}) {
    for (const char* input : {"host", "device"}) {
      const double slower = input == std::string("host") ? 1.125 : 1;
      for (Run run :
           {measured_run("single", 1, 20, 0.5 * slower), measured_run("ddp", 2, 20, 0.5 * slower),
            measured_run("ddp", 4, 20, 0.5625 * slower), measured_run("sharded", 2, 20, 0.625 * slower)}) {
        run.input = input;
        run.precision = precision;
        record.runs.push_back(run);
      }
    }
  }
  record.runs.pop_back();
  assign_baselines(record);
  return record;
}

std::string rendered(const RunRecord& record, const std::string& style, bool markdown = false) {
  const std::string text = render(record, {.style = style, .form = {.markdown = markdown}});
  if (!markdown && style != "lockstep" && style != "ddp") {
    for (const std::string& line : testing_golden::lines_of(text))
      EXPECT_LE(display_width(line), 100U) << line;
  }
  return text;
}

TEST(RenderTest, every_style_of_one_record) {
  for (const std::string& style : styles().names()) {
    const RunRecord record = style == "lockstep"     ? small_record()
                             : style == "tensorpack" ? inputs_record()
                                                     : explained_record();
    testing_golden::expect_golden("style_" + style + ".txt", rendered(record, style));
    testing_golden::expect_golden("style_" + style + ".md", rendered(record, style, true));
  }
}

TEST(RenderTest, what_strategies_measured_has_a_table_where_there_is_any) {
  RunRecord record = sweep_record();
  EXPECT_EQ(to_text(measures_tables(record)), "");
  for (auto& run : record.runs) {
    if (run.strategy != "ddp" || run.model != "resnet50" || run.ranks == 1) continue;
    run.own_measures = {{"negotiation_s", 0.0005 * run.ranks, "per step"},
                        {"staleness", 1.25, "mean"},
                        {"gradients_applied", 123456, "in all"}};
  }
  EXPECT_THAT(rendered(record, "lockstep"), AllOf(HasSubstr("negotiation"), HasSubstr("123456")));
}

TEST(RenderTest, tables_of_phases_and_factors_keep_to_100_columns) {
  const RunRecord record = explained_record();
  for (const std::string& text : {to_text(phases_tables(record)), to_text(factors_tables(record))}) {
    EXPECT_FALSE(text.empty());
    for (const std::string& line : testing_golden::lines_of(text))
      EXPECT_LE(display_width(line), 100U) << line;
  }
}

TEST(RenderTest, a_style_that_needs_phases_says_how_to_get_them) {
  for (const std::string style : {"throughput", "theano"})
    EXPECT_THAT(rendered(sweep_record(), style), HasSubstr("--breakdown")) << style;
  for (const std::string style : {"throughput", "theano"})
    EXPECT_THAT(rendered(explained_record(), style), Not(HasSubstr("--breakdown"))) << style;
  EXPECT_EQ(to_text(phases_tables(sweep_record())), "");
  EXPECT_EQ(to_text(factors_tables(sweep_record())), "");
}

/// Old files name the strategies as they were typed, "all".
TEST(RenderTest, every_strategy_of_all_is_in_every_table_and_export) {
  RunRecord record = described_record();
  record.strategies = {"all"};
  record.runs = {measured_run("single", 1, 20, 0.5)};
  const std::vector<std::string> names{"ddp", "replicated", "parameter_server", "bsp", "horovod", "sharded"};
  for (const std::string& name : names) {
    for (const int ranks : {1, 2}) {
      results::Run& run = record.runs.emplace_back(measured_run(name, ranks, 20, 0.51));
      run.breakdown = breakdown_of(ranks, 0.51, 0, 0.01);
    }
  }
  record.runs.push_back(measured_run("independent", 2, 20, 0.5));
  assign_baselines(record);
  assign_factors(record);
  const RunRecord read = from_json(to_json(record), "all.json");
  for (const bool markdown : {false, true}) {
    for (const std::string& style : styles().names()) {
      const std::string text = render(read, {.style = style, .form = {.markdown = markdown}});
      for (const std::string& name : names)
        EXPECT_THAT(text, HasSubstr(style == "ddp" ? ", " + name : name)) << style;
    }
  }
  for (const Document& table : {scaling_tables(read), phases_tables(read), factors_tables(read)}) {
    for (const std::string& name : names) EXPECT_THAT(to_text(table), HasSubstr(" 2  " + name));
  }
  for (const std::string& name : names) {
    EXPECT_THAT(to_csv(read), HasSubstr("," + name + ","));
    EXPECT_THAT(to_json(read), HasSubstr("\"" + name + "\""));
  }
  EXPECT_THAT(explanation({{{"", read}}, {}}).blocks().size(), testing::Ge(2U));
  EXPECT_THAT(to_text(explanation({{{"", read}}, {}})), HasSubstr("ddp at 2 ranks: "));
}

/// Three buckets of 1, 2 and 3 MiB, 1/32 of the step each after the last rank has come.
TEST(RenderTest, buckets_have_the_bandwidths_of_nccl_tests) {
  RunRecord record = described_record();
  record.runs = {measured_run("ddp", 4, 20, 0.512), measured_run("sharded", 4, 20, 0.512),
                 measured_run("bsp", 4, 20, 0.512)};
  for (results::Run& run : record.runs) run.breakdown = breakdown_of(4, 0.512, 0, 0.01);
  EXPECT_THAT(to_text(buckets_tables(record)),
              AllOf(HasSubstr("    4  ddp            1  1.00  16.000        0.07        0.10\n"
                              "                      2  2.00  16.000        0.13        0.20\n"),
                    HasSubstr("sharded        1  1.00  16.000        0.07        0.05\n"),
                    HasSubstr("bsp            1  1.00  16.000        0.07           -\n")));
  EXPECT_TRUE(buckets_tables(sweep_record()).empty());
}

TEST(RenderTest, a_screen_has_the_answer_first_its_own_width_and_colors) {
  RunRecord record = small_record();
  record.runs[1].images_per_s *= 3;
  assign_baselines(record);
  for (const size_t width : {80, 120}) {
    const TextForm form{.width = width, .screen = true};
    const std::string text = render(record, {.form = form}) + closing_text(record, form);
    EXPECT_LT(text.find("Scaling:"), text.find("Benchmark:"));
    EXPECT_EQ(text.find("sec/iter    ex/sec      sec/iter") != std::string::npos, width == 120) << text;
    EXPECT_THAT(text, AllOf(HasSubstr("WARNING: "), Not(HasSubstr("!!!")), Not(HasSubstr("\x1b"))));
    size_t longest = 0;
    for (const std::string& line : testing_golden::lines_of(text)) {
      longest = std::max(longest, display_width(line));
      // Figures of GPUs take more than 80 columns.
      if (line.find("1980") == std::string::npos && line.find("SM clock") == std::string::npos) {
        EXPECT_LE(display_width(line), width) << line;
      }
    }
    EXPECT_GT(longest, width - 10);
  }
  const TextForm colored{.screen = true, .colors = true};
  EXPECT_THAT(
      render(record, {.form = colored}) + closing_text(record, colored),
      AllOf(HasSubstr("\x1b[1mScaling: "), HasSubstr("% ?\x1b[0m"), HasSubstr("\x1b[1;31mWARNING: \x1b[0m")));
}

TEST(RenderTest, a_narrow_screen_leaves_out_what_is_small_and_never_most_of_a_step) {
  RunRecord record = small_record();
  for (results::Run& run : record.runs) {
    run.breakdown = breakdown_of(run.ranks, 1, 0, 0);
    run.breakdown->mean.other_s += run.breakdown->mean.forward_s;
    run.breakdown->mean.forward_s = 0;
  }
  const std::string text = to_text(phases_tables(record), {.width = 80, .screen = true});
  const size_t at = text.find("  step  ");
  ASSERT_NE(at, std::string::npos) << text;
  const std::string heads = text.substr(at, text.find('\n', at) - at);
  EXPECT_THAT(heads, AllOf(HasSubstr("backward"), HasSubstr("other"), Not(HasSubstr("input"))));
}

/// 0.5 s a step of 2 x 8 images: 5120 images are 320 steps, 160 s, a sixteenth of it waiting, an eighth
/// transfer.
TEST(RenderTest, theano_splits_the_time_of_5120_images) {
  RunRecord record = described_record();
  for (results::Run run : {plain_run("single", 1), plain_run("ddp", 2)}) {
    run.images_per_s = run.ranks == 1 ? 20 : 32;
    run.breakdown = breakdown_of(run.ranks, 1, run.ranks == 1 ? 0 : 0.0625, run.ranks == 1 ? 0 : 0.125);
    record.runs.push_back(run);
  }
  assign_baselines(record);
  const std::string text = rendered(record, "theano");
  EXPECT_THAT(text,
              HasSubstr("130.00          20.00            10.00  160.00    11.12      1.60          1.71"))
      << "256 / 150 = 1.71";
  EXPECT_THAT(render(record, {.style = "theano", .epoch_size = 115200}), HasSubstr("  1.00      1.60"));
}

/// Forward is a quarter of what is left of the step; backward a half, the optimizer an eighth.
TEST(RenderTest, throughput_counts_the_images_over_the_parts_of_the_step) {
  RunRecord record = described_record();
  results::Run run = plain_run("ddp", 2);
  run.images_per_s = 15;
  run.breakdown = breakdown_of(2, 1, 0.125, 0.0625);
  record.runs.push_back(run);
  const double rest_s = 0.8125;
  EXPECT_THAT(rendered(record, "throughput"),
              AllOf(HasSubstr(fmt::format("{:.2f}", 16 / (rest_s / 4))),
                    HasSubstr(fmt::format("{:.2f}", 16 / (rest_s * 5 / 8 + 0.1875))), HasSubstr("15.00")));
}

TEST(RenderTest, styles_have_the_unit_of_the_network) {
  RunRecord record = small_record();
  for (results::Run& run : record.runs) run.unit = "sequence";
  for (const char* style : {"throughput", "theano", "tensorpack"}) {
    const std::string text = render(record, {.style = style});
    EXPECT_THAT(text, testing::HasSubstr("sequences")) << style;
    EXPECT_THAT(text, testing::Not(testing::HasSubstr("image"))) << style;
  }
}

TEST(RenderTest, hidden_communication_is_of_several_ranks_and_never_below_nothing) {
  RunRecord record = described_record();
  for (const int ranks : {1, 2}) {
    record.runs.push_back(measured_run("ddp", ranks, 20, 0.5));
    record.runs.back().breakdown = breakdown_of(ranks, 0.5, 0, 0.25);
    record.runs.back().breakdown->communication_s = 0.125;
    record.runs.back().factors = EfficiencyFactors{.half_width = {.machine = 5.4}};
  }
  const std::string text = to_text(factors_tables(record));
  EXPECT_THAT(text, AllOf(HasSubstr(" 0 %"), HasSubstr("100.0 ±>100"), Not(HasSubstr("-100"))));
}

TEST(RenderTest, an_unknown_style_is_refused_with_the_nearest) {
  try {
    render(sweep_record(), {.style = "teano"});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("unknown style 'teano'"), HasSubstr("theano")));
  }
}

TEST(RenderTest, nothing_measured_is_no_crash) {
  for (const std::string& style : styles().names())
    EXPECT_FALSE(render(RunRecord{}, {.style = style}).empty());
}

TEST(DocumentTest, markdown_escapes_what_would_end_a_field) {
  Table table{.columns = {{"a|b", kText}, "n"}};
  table.add_row({"* x", "±1"});
  EXPECT_EQ(to_text(table, TextForm::kMarkdown), "| a\\|b | n |\n| --- | ---: |\n| \\* x | ±1 |\n");
}

TEST(DocumentTest, characters_and_not_bytes_are_aligned) {
  Table table{.columns = {"x", "y"}};
  table.add_row({"±1", "ab"});
  table.add_row({"123", "c"});
  EXPECT_EQ(to_text(table), "  x   y\n ±1  ab\n123   c\n");
}

TEST(DocumentTest, shares_are_a_row_below_in_text) {
  Table table{.columns = {{"name", kText}, "ms", "of"}, .rows = {}, .shares_below = true};
  table.add_row({"a", Cell("5", 0.25), Cell("-", std::nan(""))});
  EXPECT_EQ(to_text(table), "name      ms  of\na          5   -\n      25.0 %   -\n");
}

TEST(DocumentTest, a_table_that_is_too_wide_has_short_heads) {
  Table table{.columns = {"efficiency", std::string(88, 'x')}};
  table.columns[0].short_head = "eff.";
  EXPECT_THAT(to_text(table), HasSubstr("efficiency"));
  table.columns[1].head += 'x';
  EXPECT_THAT(to_text(table), AllOf(HasSubstr("eff."), Not(HasSubstr("efficiency"))));
}

TEST(DocumentTest, a_row_with_a_long_cell_follows_the_table_on_a_terminal_only) {
  Table table{.columns = {{"", kText}, {"base", kText}}, .rows = {}, .longest_cell = 3};
  table.add_row({"x:", "long"});
  table.add_row({"y:", "abc"});
  EXPECT_EQ(to_text(table), "    base\ny:  abc\nx:\n     base  long\n");
  EXPECT_THAT(to_text(table, TextForm::kMarkdown), HasSubstr("| x: | long |\n| y: | abc |\n"));
}

TEST(DocumentTest, blocks_are_set_apart_by_what_they_are) {
  Document document;
  document.add(Remark{"", "one"});
  document.add(Heading{"two"});
  document.add(Table{.columns = {"n"}});
  document.add(Remark{"", "three"});
  document.add(Remark{"four: ", "five", true});
  document.add(Preformatted{"six\n"});
  document.add(Preformatted{"seven\n"});
  EXPECT_EQ(to_text(document), "one\n\ntwo\n\nn\nthree\n\nfour: five\nsix\n\nseven\n");
  EXPECT_EQ(to_text(document, TextForm::kMarkdown),
            "one\n\n### two\n\n| n |\n| ---: |\n\nthree\n\n\nfour: five\n```\nsix\n```\n\n```\nseven\n```\n");
}

TEST(RenderTest, the_state_of_replicas_is_told_where_it_is_known) {
  const std::string text = render(small_record());
  EXPECT_THAT(text, HasSubstr("Memory per rank: resnet50 with batch size 8 per rank\n"));
  EXPECT_THAT(text, HasSubstr("    2  ddp         97.5 MiB   97.5 MiB  48.7 MiB  0 B to 4.0 KiB  243.7 MiB"));
  EXPECT_THAT(text,
              HasSubstr("Tuned: resnet50 ddp at 2 ranks: --bucket-mb 8 (x 1.06 against 25 [1.03, 1.09]); "
                        "use it next time"));
  EXPECT_THAT(text, HasSubstr("8: 500, 25: 531.2."));
  EXPECT_THAT(
      text, HasSubstr("Replicas: compared bit for bit every 2 steps, and equal: resnet50 ddp at 2 ranks (3"));
  EXPECT_THAT(text, HasSubstr("independent (its replicas go their own ways)"));
  RunRecord stays = small_record();
  stays.runs[1].tuning->chosen_mb = 25;
  stays.runs[1].tuning->reason = "8 cannot be told apart from it";
  EXPECT_THAT(render(stays), HasSubstr("--bucket-mb 25 stays: 8 cannot be told apart from it (x 1.06"));
  for (const char* part : {"Memory per rank", "Tuned:", "Replicas:"}) {
    EXPECT_THAT(render(sweep_record()), Not(HasSubstr(part)));
  }
}

TEST(RenderTest, tuned_rows_share_a_table_whatever_they_found) {
  RunRecord record = sweep_record();
  for (results::Run& run : record.runs) {
    if (run.strategy != "ddp") continue;
    run.bucket_mb = 4.0 * run.ranks;
    run.tuning = BucketTuning{};
  }
  const std::string text = render(record, {.style = "ddp"});
  EXPECT_EQ(text, render(sweep_record(), {.style = "ddp"}));
}

}  // namespace
}  // namespace lockstep::results
