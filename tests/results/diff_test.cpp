#include "lockstep/results/tables/diff.h"

#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/results/record/launches.h"

#include "golden/golden.h"
#include "measure/synthetic.h"
#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

using measure::Verdict;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// A row of `launches` launches, all ranks alike, drawn from `random`.
Run drawn_run(const std::string& strategy, int ranks, const measure::synthetic::Launches& plan,
              measure::synthetic::Generator& random) {
  Run run = plain_run(strategy, ranks);
  run.coupled = true;
  for (const std::vector<double>& launch : measure::synthetic::draw(plan, random)) {
    for (const double step_s : launch) run.samples.emplace_back(static_cast<size_t>(ranks), step_s);
    run.launch_steps.push_back(static_cast<int>(launch.size()));
    run.launch_warmup_steps.push_back(0);
  }
  return run;
}

RunRecord drawn_record(const std::vector<double>& median_s, unsigned seed, size_t launches = 5) {
  RunRecord record = described_record();
  measure::synthetic::Generator random(seed);
  int ranks = 1;
  for (const double median : median_s) {
    record.runs.push_back(drawn_run(ranks == 1 ? "single" : "ddp", ranks,
                                    {.launches = launches, .steps = 50, .median_s = median}, random));
    ranks *= 2;
  }
  return record;
}

RunRecord golden_record(const char* name) {
  return read_record(std::filesystem::path(LOCKSTEP_GOLDEN) / name);
}

/// The numbers are those of NumPy's linear percentiles and -100 * (test - base) / base, worked out by hand.
TEST(DiffTest, files_of_pytorchs_benchmark_give_the_numbers_of_its_own_diff) {
  const RunRecord base = golden_record("pytorch_25mb.json");
  const RunRecord test = golden_record("pytorch_1mb.json");
  const Diff diff = compare_records(base, test);
  struct Expected {
    double base75, test75, change75, base95, test95, change95;
  };
  const std::vector<Expected> expected{
      {0.102469, 0.108391, -5.7786, 0.103464, 0.108885, -5.2399},
      {0.104625, 0.110517, -5.6315, 0.105109, 0.111183, -5.7787},
      {0.168272, 0.178734, -6.2170, 0.168860, 0.179003, -6.0064},
      {0.171861, 0.181329, -5.5091, 0.172783, 0.182070, -5.3751},
  };
  size_t next = 0;
  for (const DiffRow& row : diff.rows) {
    if (row.base->ranks == 1) continue;
    ASSERT_LT(next, expected.size());
    const Expected& here = expected[next++];
    ASSERT_EQ(row.changes.size(), 2U);
    const measure::Comparison& p75 = row.changes[0].comparison;
    const measure::Comparison& p95 = row.changes[1].comparison;
    EXPECT_NEAR(p75.base_s, here.base75, 1e-6);
    EXPECT_NEAR(p75.test_s, here.test75, 1e-6);
    EXPECT_NEAR(p75.change_percent(), here.change75, 1e-4);
    EXPECT_NEAR(p95.base_s, here.base95, 1e-6);
    EXPECT_NEAR(p95.test_s, here.test95, 1e-6);
    EXPECT_NEAR(p95.change_percent(), here.change95, 1e-4);
    EXPECT_EQ(row.verdict.verdict, Verdict::kNotEnoughData) << "pooled ranks are no series";
    EXPECT_THAT(row.verdict.reason, HasSubstr("pools"));
  }
  EXPECT_EQ(next, expected.size());
  EXPECT_NEAR(diff.rows[1].changes[0].comparison.change_percent(), -0.2476, 1e-4) << "resnet50, ddp, 1 rank";
  EXPECT_FALSE(diff.rows[1].changes[1].known) << "10 samples have no p95";
  ASSERT_EQ(diff.changes.size(), 1U);
  EXPECT_EQ(diff.changes[0].name, "bucket");
}

TEST(DiffTest, text_of_files_of_pytorchs_benchmark) {
  const RunRecord base = golden_record("pytorch_25mb.json");
  const RunRecord test = golden_record("pytorch_1mb.json");
  testing_golden::expect_golden("diff_pytorch.txt", to_text(diff_tables(compare_records(base, test))));
}

TEST(DiffTest, text_over_launches_with_rows_of_every_verdict) {
  RunRecord base = drawn_record({0.5, 0.51, 0.52, 0.53}, 1);
  RunRecord test = drawn_record({0.5, 0.45, 0.6, 0.53}, 2);
  base.runs.push_back(plain_run("ddp", 16));
  base.runs.back().samples.assign(8, std::vector<double>(16, 0.5));
  test.runs.push_back(base.runs.back());
  test.runs.push_back(plain_run("ddp", 32));
  base.runs.insert(base.runs.begin(), plain_run("ddp", 3));
  test.machines[0].governor = "powersave";
  test.command = {"lockstep", "bench", "--ranks", "1,2,4,8", "--repeat", "5", "--json", "after.json"};
  const Diff diff = compare_records(base, test);
  std::vector<Verdict> verdicts;
  for (const DiffRow& row : diff.rows) verdicts.push_back(row.verdict.verdict);
  EXPECT_THAT(verdicts, ElementsAre(Verdict::kSame, Verdict::kFaster, Verdict::kSlower, Verdict::kSame,
                                    Verdict::kNotEnoughData));
  EXPECT_EQ(diff.regressions(), 1);
  const std::string text = to_text(diff_tables(diff));
  testing_golden::expect_golden("diff_launches.txt", text);
  for (const std::string& line : testing_golden::lines_of(text)) EXPECT_LE(display_width(line), 100U) << line;
  testing_golden::expect_golden("diff_launches.md", to_text(diff_tables(diff), TextForm::kMarkdown));
}

TEST(DiffTest, one_launch_on_a_side_differs_within_these_launches_and_is_no_regression) {
  const RunRecord base = drawn_record({0.5, 0.5}, 3, 1);
  const RunRecord test = drawn_record({0.5, 0.6}, 4, 5);
  const Diff diff = compare_records(base, test);
  EXPECT_EQ(diff.rows[1].verdict.verdict, Verdict::kSlower);
  EXPECT_EQ(diff.regressions(), 0);
  EXPECT_EQ(diff.rows_over_launches(), 0);
  EXPECT_THAT(to_text(diff_tables(diff)), AllOf(HasSubstr("slower (here)"), HasSubstr("--repeat"),
                                                HasSubstr("cannot be told from a single launch")));
}

TEST(DiffTest, the_threshold_is_for_the_estimate) {
  const RunRecord base = drawn_record({0.5, 0.5}, 5);
  const RunRecord test = drawn_record({0.5, 0.55}, 6);
  EXPECT_EQ(compare_records(base, test, {.threshold = 0.02}).regressions(), 1);
  EXPECT_EQ(compare_records(base, test, {.threshold = 0.2}).regressions(), 0);
  EXPECT_EQ(compare_records(base, test, {.threshold = 0.2}).rows[1].verdict.verdict, Verdict::kSlower);
}

TEST(DiffTest, steps_of_other_work_are_not_compared) {
  const RunRecord base = drawn_record({0.5, 0.5}, 5);
  RunRecord test = drawn_record({2.0, 2.0}, 6);
  for (auto& run : test.runs) run.accumulate = 4;
  const Diff diff = compare_records(base, test);
  EXPECT_EQ(diff.rows[1].verdict.verdict, Verdict::kNotEnoughData);
  EXPECT_THAT(diff.rows[1].verdict.reason, HasSubstr("images per rank in base and"));
  EXPECT_EQ(diff.regressions(), 0);
}

TEST(DiffTest, a_slow_tail_is_found_by_the_percentile_that_sees_it) {
  RunRecord base = drawn_record({0.5}, 7);
  RunRecord test = drawn_record({0.5}, 8);
  for (size_t step = 0; step < test.runs[0].samples.size(); step += 8) test.runs[0].samples[step][0] *= 1.5;
  EXPECT_EQ(compare_records(base, test).rows[0].verdict.verdict, Verdict::kSame);
  const Diff by_tail = compare_records(base, test, {.decisive = 95});
  EXPECT_EQ(by_tail.rows[0].verdict.verdict, Verdict::kSlower);
  EXPECT_THAT(by_tail.percentiles, ElementsAre(75, 95));
  EXPECT_THAT(compare_records(base, test, {.decisive = 50}).percentiles, ElementsAre(50, 95));
}

TEST(DiffTest, a_difference_that_many_rows_explain_is_taken_back_with_a_word) {
  bool seen = false;
  for (unsigned seed = 10; seed < 60 && !seen; ++seed) {
    const RunRecord base = drawn_record({0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, seed);
    const RunRecord test = drawn_record({0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, seed + 1000);
    const Diff diff = compare_records(base, test);
    for (const DiffRow& row : diff.rows) {
      if (!row.corrected_away) continue;
      seen = true;
      EXPECT_EQ(row.verdict.verdict, Verdict::kSame);
      EXPECT_THAT(to_text(diff_tables(diff)), HasSubstr("one of 6 rows does by chance"));
    }
  }
  EXPECT_TRUE(seen);
}

TEST(DiffTest, the_same_file_twice_differs_in_nothing) {
  const RunRecord record = drawn_record({0.5, 0.5}, 9);
  const Diff diff = compare_records(record, record);
  for (const HeaderEntry& entry : diff.header) EXPECT_FALSE(entry.differs) << entry.name;
  for (const DiffRow& row : diff.rows) EXPECT_EQ(row.verdict.verdict, Verdict::kSame);
  EXPECT_THAT(to_text(diff_tables(diff)), AllOf(HasSubstr("+0.0 ±"), Not(HasSubstr("-0.0"))));
}

TEST(DiffTest, entries_of_the_header_that_differ_come_first_but_not_the_time) {
  RunRecord base = described_record();
  base.runs = drawn_record({0.5}, 9).runs;
  RunRecord test = base;
  test.started_at = "2031-01-01T00:00:00Z";
  test.torch_version = "2.12.0";
  const auto header = compare_records(base, test).header;
  EXPECT_EQ(header[0].name, "pytorch_version");
  EXPECT_TRUE(header[0].differs);
  for (size_t i = 1; i < header.size(); ++i) EXPECT_FALSE(header[i].differs) << header[i].name;
  test.machines[0].processor = "Another Processor with a Name of More Characters than Fit";
  test.machines[0].cores = 2;
  test.launches_started_at = {"2030-01-02T03:04:05Z"};
  testing_golden::expect_golden("diff_header.txt", to_text(diff_tables(compare_records(base, test))));
}

TEST(DiffTest, settings_that_the_files_are_compared_for_are_told_from_those_that_keep_rows_apart) {
  RunRecord base = sweep_record();
  for (const char* precision : {"fp32", "bf16"}) {
    for (const double bucket_mb : {8.0, 25.0}) {
      results::Run run = measured_run("ddp", 2, 24, 0.5 + bucket_mb / 256);
      run.precision = precision;
      run.bucket_mb = bucket_mb;
      base.runs.push_back(run);
    }
  }
  RunRecord test = base;
  for (results::Run& run : test.runs) {
    run.kernels = "fused";
    run.memory_format = "contiguous";
  }
  test.runs.erase(test.runs.begin() + 1);
  testing_golden::expect_golden("diff_settings.txt", to_text(diff_tables(compare_records(base, test))));
}

TEST(DiffTest, another_gpu_or_driver_is_warned_of) {
  const RunRecord base = gpu_record();
  EXPECT_THAT(to_text(diff_tables(compare_records(base, base))), Not(HasSubstr("Warning")));
  RunRecord test = base;
  for (topology::RankGpu& gpu : test.rank_gpus) gpu.name = "NVIDIA H100";
  test.cudnn_version = "9.1.0";
  test.machines[0].map.driver_version = "570.1";
  for (results::Run& run : test.runs)
    run.device_settings = "fp32 matrix products in tf32, convolutions in tf32";
  EXPECT_THAT(
      to_text(diff_tables(compare_records(base, test))),
      AllOf(HasSubstr("Warning: the two were not measured on the same device ("),
            HasSubstr("GPUs of the ranks"), HasSubstr("2 x NVIDIA H200"), HasSubstr("2 x NVIDIA H100"),
            HasSubstr("GPU driver"), HasSubstr("cuDNN"), HasSubstr("device settings")));
  RunRecord shared = base;
  shared.rank_gpus[1] = shared.rank_gpus[0];
  EXPECT_THAT(to_text(diff_tables(compare_records(base, shared))), HasSubstr("device (GPUs shared)"));
}

TEST(DiffTest, launches_that_did_not_take_turns_are_warned_of) {
  RunRecord base = drawn_record({0.5}, 9);
  RunRecord test = base;
  const auto text = [&](const std::vector<int>& base_minutes, const std::vector<int>& test_minutes) {
    const auto starts = [](const std::vector<int>& minutes) {
      std::vector<std::string> texts;
      for (const int minute : minutes) texts.push_back(fmt::format("2030-01-02T03:{:02}:00Z", minute));
      return texts;
    };
    base.launches_started_at = starts(base_minutes);
    test.launches_started_at = starts(test_minutes);
    return to_text(diff_tables(compare_records(base, test)));
  };
  const char* const warning = "Warning: the launches of base and test did not take turns";
  EXPECT_THAT(text({0, 1, 2, 3}, {4, 5, 6, 7}), HasSubstr(warning));
  EXPECT_THAT(text({4, 5, 6, 7}, {0, 1, 2, 3}), HasSubstr(warning));
  EXPECT_THAT(text({0, 1, 2, 7}, {3, 4, 5, 6}), HasSubstr(warning));
  EXPECT_THAT(text({0, 3, 4, 7}, {1, 2, 5, 6}), Not(HasSubstr("take turns"))) << "ABBA";
  EXPECT_THAT(text({0, 2, 4, 6}, {1, 3, 5, 7}), Not(HasSubstr("take turns"))) << "ABAB";
  EXPECT_THAT(text({0, 1, 2, 3}, {4}), Not(HasSubstr("take turns"))) << "one launch is no turn";
}

TEST(DiffTest, no_common_row_is_said_with_what_there_is) {
  const RunRecord base = drawn_record({0.5}, 1);
  RunRecord test = base;
  test.runs[0].model = "lenet5";
  try {
    compare_records(base, test);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no row in common"));
    EXPECT_THAT(error.advice(), AllOf(HasSubstr("resnet50 with batch size 8 at 1"), HasSubstr("lenet5")));
  }
  EXPECT_THROW(compare_records(RunRecord{}, base), ConfigError);
}

/// The text on one line.
std::string on_one_line(const Document& document) {
  std::string line;
  for (const char c : to_text(document)) {
    const bool space = c == ' ' || c == '\n';
    if (!space || !line.ends_with(' ')) line += space ? ' ' : c;
  }
  return line;
}

/// A recorded training on one rank with the phases of a mean step, of 8 samples unless `batch` is 0: unknown.
RunRecord recorded_record(const std::string& name, double input_s, int batch = 8) {
  RunRecord record;
  record.source = kRecordedSource;
  const double step_s = 0.03 + input_s;
  results::Run run = measured_run("single", 1, 40, step_s);
  run.model = name;
  run.unit = batch > 0 ? "sample" : results::kStepUnit;
  run.batch_per_rank = std::max(1, batch);
  run.parameters = run.parameter_tensors = run.largest_parameter = 0;
  run.recorded.emplace().ranks = {0};
  run.breakdown = breakdown_of(1, step_s, 0, 0);
  measure::PhaseTimes& mean = run.breakdown->mean;
  mean = {.input_s = input_s, .forward_s = 0.01, .backward_s = 0.019, .optimizer_s = 0.001, .step_s = step_s};
  record.runs = {run};
  return record;
}

TEST(DiffTest, phases_of_both_sides_say_what_made_the_difference) {
  const RunRecord base = recorded_record("train", 0.03), test = recorded_record("train", 0.001);
  const std::string text = to_text(diff_tables(compare_records(base, test)));
  EXPECT_THAT(text, HasSubstr("\nPhases of a mean step, milliseconds\n"));
  EXPECT_THAT(text, testing::ContainsRegex("base +60.00 +30.00 +10.00 +19.00"));
  EXPECT_THAT(text, testing::ContainsRegex("test +31.00 +1.00 +10.00 +19.00"));
  EXPECT_THAT(on_one_line(diff_tables(compare_records(base, test))),
              HasSubstr("A mean step takes 29.0 ms less in test (60.0 ms in base): input 29.0 ms less. "));
  EXPECT_THAT(text, HasSubstr("lockstep import --append"));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("--repeat")), Not(HasSubstr("bucket_size"))));
  // Two phases that make up for each other.
  RunRecord other = base;
  other.runs[0].breakdown->mean.input_s -= 0.01;
  other.runs[0].breakdown->mean.backward_s += 0.012;
  other.runs[0].breakdown->mean.step_s += 0.002;
  EXPECT_THAT(on_one_line(diff_tables(compare_records(base, other))),
              AllOf(HasSubstr("backward 12.0 ms more"), HasSubstr("input 10.0 ms less"),
                    Not(HasSubstr("forward 1"))));
  EXPECT_THAT(on_one_line(diff_tables(compare_records(base, base))), HasSubstr("no phase changes by 2 %"));
  // Those of bench likewise, where both sides have them.
  RunRecord bench = sweep_record();
  for (results::Run& run : bench.runs) run.breakdown = breakdown_of(run.ranks, 0.5, 0, 0.1);
  EXPECT_THAT(to_text(diff_tables(compare_records(bench, bench))), HasSubstr("Phases of a mean step"));
  for (results::Run& run : bench.runs) run.breakdown.reset();
  EXPECT_THAT(to_text(diff_tables(compare_records(bench, bench))), Not(HasSubstr("Phases of")));
}

TEST(DiffTest, trainings_that_nothing_calls_the_same_are_compared_only_when_asked) {
  const RunRecord base = recorded_record(kUnnamed, 0.03, 0), test = recorded_record(kUnnamed, 0.003, 0);
  try {
    compare_records(base, test);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("not known whether base and test are the same"));
    EXPECT_THAT(error.advice(), AllOf(HasSubstr("--as-same"), HasSubstr("import --name"),
                                      HasSubstr("training with unknown batch size at 1")));
  }
  const std::string text = on_one_line(diff_tables(compare_records(base, test, {.as_same = true})));
  EXPECT_THAT(text, AllOf(HasSubstr("training with unknown batch size"), HasSubstr("input 27.0 ms less")));
  EXPECT_THAT(on_one_line(verdicts({"a", base}, {"b", test})),
              HasSubstr("not known whether they are the same"));
  // What is not the same in any case has no row in common.
  RunRecord more_ranks = test;
  more_ranks.runs[0].ranks = 2;
  EXPECT_THROW(compare_records(base, more_ranks, {.as_same = true}), ConfigError);
}

TEST(DiffTest, a_rate_that_a_few_long_steps_make_is_said_beside_the_percentile) {
  RunRecord base = recorded_record("train", 0), test = base;
  results::Run& slow = base.runs[0];
  slow.samples.clear();
  for (int step = 0; step < 400; ++step)
    slow.samples.push_back({step % 20 == 0 ? 0.5 : 0.001 * (1 + 0.01 * ((7 * step) % 11))});
  test.runs[0].samples.clear();
  for (int step = 0; step < 400; ++step)
    test.runs[0].samples.push_back({0.001 * (1 + 0.01 * ((7 * step) % 11))});
  slow.images_per_s = 310;
  test.runs[0].images_per_s = 7600;
  const Diff diff = compare_records(base, test);
  EXPECT_EQ(diff.rows[0].verdict.verdict, Verdict::kSame);
  EXPECT_EQ(diff.rows[0].mean.verdict, Verdict::kFaster);
  EXPECT_TRUE(diff.rows[0].only_mean_differs());
  const std::string text = to_text(diff_tables(diff));
  EXPECT_THAT(text, HasSubstr("  rate faster (here)\n"));
  EXPECT_THAT(text,
              AllOf(HasSubstr("Mean rate: train no ddp at 1 rank: 310 samples/s in base, 7600 samples/s in"),
                    HasSubstr("p75: same within noise")));
  EXPECT_THAT(text, HasSubstr("1 row: 1 faster by the mean rate alone."));
  EXPECT_THAT(to_text(diff_tables(compare_records(base, base))), Not(HasSubstr("Mean rate")));
  EXPECT_THAT(on_one_line(verdicts({"a", base}, {"b", test})), HasSubstr("% by its mean"));
}

TEST(DiffTest, a_rate_without_an_interval_is_said_where_it_is_far_from_the_percentile) {
  RunRecord base = recorded_record("train", 0), test = base;
  base.runs[0].samples.assign(6, {0.01});
  base.runs[0].samples.back() = {0.3};
  test.runs[0].samples.assign(6, {0.01});
  const Diff diff = compare_records(base, test);
  EXPECT_EQ(diff.rows[0].verdict.verdict, Verdict::kNotEnoughData);
  EXPECT_FALSE(diff.rows[0].only_mean_differs());
  EXPECT_THAT(to_text(diff_tables(diff)), AllOf(HasSubstr("Mean rate: "), HasSubstr("not enough data; p75")));
  EXPECT_THAT(to_text(diff_tables(compare_records(test, test))), Not(HasSubstr("Mean rate")));
}

TEST(DiffTest, a_mean_rate_that_falls_over_launches_is_a_regression) {
  const RunRecord base = drawn_record({0.5}, 7);
  RunRecord test = drawn_record({0.5}, 8);
  for (size_t step = 0; step < test.runs[0].samples.size(); step += 8) test.runs[0].samples[step][0] *= 3;
  const Diff diff = compare_records(base, test);
  EXPECT_EQ(diff.rows[0].verdict.verdict, Verdict::kSame);
  EXPECT_EQ(diff.rows[0].mean.verdict, Verdict::kSlower);
  EXPECT_EQ(diff.regressions(), 1);
  EXPECT_THAT(to_text(diff_tables(diff)), HasSubstr("Regressions beyond 2 %: resnet50 no ddp at 1 rank."));
}

}  // namespace
}  // namespace lockstep::results
