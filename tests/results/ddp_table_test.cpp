#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/results/tables/tables.h"

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

using testing::HasSubstr;
using testing::Not;

Run gpu_run(const std::string& strategy, int ranks, int hosts, double step_s) {
  Run run = plain_run(strategy, ranks);
  run.device = "cuda";
  run.backend = "nccl";
  run.batch_per_rank = 32;
  run.hosts = hosts;
  run.step_s = {step_s, step_s, step_s, step_s, std::nullopt};
  return run;
}

TEST(DdpTableTest, on_gpus_it_has_the_very_form_of_pytorchs_benchmark) {
  RunRecord record;
  record.runs = {gpu_run("single", 1, 1, 0.0972), gpu_run("ddp", 1, 1, 0.1002),
                 gpu_run("ddp", 16, 2, 0.1041)};
  const std::string cells =
      "  p50:  0.097s     329/s  p75:  0.097s     329/s  p90:  0.097s     329/s  p95:  0.097s     329/s\n";
  const std::string text = to_text(ddp_tables(record));
  EXPECT_THAT(text, HasSubstr("Benchmark: resnet50 with batch size 32\n\n"));
  EXPECT_THAT(text, HasSubstr("                            sec/iter    ex/sec      sec/iter    ex/sec"));
  EXPECT_THAT(text, HasSubstr("\n   1 GPUs --   no ddp:" + cells));
  EXPECT_THAT(text, HasSubstr("\n   1 GPUs --    1M/1G:  p50:  0.100s     319/s"));
  EXPECT_THAT(text, HasSubstr("\n  16 GPUs --    2M/8G:  p50:  0.104s     307/s"));
}

TEST(DdpTableTest, too_few_steps_for_a_percentile_show_a_dash) {
  RunRecord record;
  record.runs = {measured_run("single", 1, 3, 0.5)};
  const std::string text = to_text(ddp_tables(record));
  EXPECT_THAT(text,
              HasSubstr("p50:  0.501s    16.0/s  p75:       -         -  p90:       -         -  p95:"));
}

TEST(DdpTableTest, every_combination_of_a_sweep_has_a_table_that_names_what_varies) {
  RunRecord record;
  record.strategies = {"ddp"};
  for (const char* precision : {"fp32", "bf16"}) {
    auto single = measured_run("single", 1, 4, precision == std::string("fp32") ? 0.5 : 0.25);
    single.precision = precision;
    record.runs.push_back(single);
    for (const double bucket_mb : {25.0, 1.0}) {
      auto run = measured_run("ddp", 2, 4, 0.5);
      run.precision = precision;
      run.bucket_mb = bucket_mb;
      record.runs.push_back(run);
    }
  }
  const std::string text = to_text(ddp_tables(record));
  EXPECT_THAT(text, HasSubstr("Benchmark: resnet50 with batch size 8, fp32, buckets of 25 MiB\n"));
  EXPECT_THAT(text, HasSubstr("Benchmark: resnet50 with batch size 8, bf16, buckets of 1 MiB\n"));
  EXPECT_THAT(text, Not(HasSubstr("gloo"))) << "what is the same everywhere is not said";
  const auto count = [&](const std::string& part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("Benchmark:"), 4u);
  EXPECT_EQ(count("no ddp:  p50:  0.501s"), 2u) << "each precision beside its own baseline";
  EXPECT_EQ(count("no ddp:  p50:  0.250s"), 2u);
}

TEST(DdpTableTest, a_control_has_no_table_of_its_own_unless_it_was_asked_for) {
  RunRecord record;
  record.strategies = {"ddp"};
  record.runs = {measured_run("single", 1, 4, 0.5), measured_run("independent", 2, 4, 0.5),
                 measured_run("ddp", 2, 4, 0.625)};
  EXPECT_THAT(to_text(ddp_tables(record)), Not(HasSubstr("independent")));
  record.strategies = {"ddp", "independent"};
  EXPECT_THAT(to_text(ddp_tables(record)), HasSubstr("with batch size 8, independent\n"));
}

TEST(DdpTableTest, what_an_early_end_left_is_shown) {
  RunRecord record;
  EXPECT_EQ(to_text(ddp_tables(record)), "");
  record.strategies = {"ddp"};
  record.runs = {measured_run("single", 1, 4, 0.5)};
  EXPECT_THAT(to_text(ddp_tables(record)), HasSubstr("   1 ranks --   no ddp:"));
}

}  // namespace
}  // namespace lockstep::results
