#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/results/files/record_json.h"

#include "cli/in_process.h"
#include "recordings/made_traces.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A row of ddp at 2 ranks: `launches` launches of 40 steps of about `step_s`, each launch a little off.
void write_result(const std::string& path, double step_s, int launches) {
  results::RunRecord record;
  record.torch_version = "2.11.0";
  record.distributed_backend = "gloo";
  results::Run run;
  run.model = "resnet18";
  run.batch_per_rank = 4;
  run.ranks = 2;
  run.strategy = "ddp";
  run.backend = "gloo";
  run.bucket_mb = 25;
  for (int launch = 0; launch < launches; ++launch) {
    for (int step = 0; step < 40; ++step) {
      const double here = step_s * (1 + 0.004 * (launch % 3) + 0.001 * ((7 * step) % 11));
      run.samples.push_back({here, here});
    }
    run.launch_steps.push_back(40);
    run.launch_warmup_steps.push_back(0);
  }
  record.runs = {run};
  write_file_atomically(path, results::to_json(record));
}

class DiffCommandTest : public testing::Test {
 protected:
  DiffCommandTest() {
    write_result(base_, 0.5, 5);
    write_result(slower_, 0.55, 5);
    write_result(once_, 0.55, 1);
  }

  test::Finished diff(std::vector<std::string> words) {
    words.insert(words.begin(), {"lockstep", "diff"});
    return test::run_here(words);
  }

  test::ScratchFolder folder_;
  const std::string base_ = folder_.path("base.json");
  const std::string slower_ = folder_.path("slower.json");
  const std::string once_ = folder_.path("once.json");
};

TEST_F(DiffCommandTest, a_regression_is_an_exit_code_only_where_that_was_asked_for) {
  const test::Finished plain = diff({base_, slower_});
  EXPECT_EQ(plain.exit_code, 0) << plain.error;
  EXPECT_THAT(plain.output,
              AllOf(HasSubstr("slower"), HasSubstr("Regressions beyond 2 %: resnet18 ddp at 2 ranks")));
  EXPECT_EQ(diff({base_, slower_, "--fail-on", "regression"}).exit_code, 3);
  EXPECT_EQ(diff({base_, slower_, "--fail-on", "regression", "--paired", "--by", "p95"}).exit_code, 3);
  EXPECT_EQ(diff({base_, slower_, "--fail-on", "regression", "--threshold", "20%"}).exit_code, 0);
  EXPECT_EQ(diff({slower_, base_, "--fail-on", "regression"}).exit_code, 0) << "faster";
  EXPECT_EQ(diff({base_, base_, "--fail-on", "regression", "--threshold", "0%"}).exit_code, 0) << "the same";
}

TEST_F(DiffCommandTest, a_gate_that_cannot_close_is_refused) {
  const test::Finished finished = diff({base_, once_, "--fail-on", "regression"});
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_THAT(finished.output, HasSubstr("slower (here)"));
  EXPECT_THAT(finished.error, AllOf(HasSubstr("two launches"), HasSubstr("--repeat")));
  // 40 steps a launch have no p99.
  const test::Finished short_rows = diff({base_, slower_, "--fail-on", "regression", "--by", "p99"});
  EXPECT_EQ(short_rows.exit_code, 2);
  EXPECT_THAT(short_rows.output, HasSubstr("Regressions beyond 2 %: cannot be told."));
  EXPECT_THAT(short_rows.error, HasSubstr("steps enough for --by"));
}

TEST_F(DiffCommandTest, what_cannot_be_compared_is_said) {
  write_file_atomically(folder_.path("cut.json"), "{\"benchmark_results\": [");
  for (const auto& [file, text] : {std::pair{"missing.json", "No such file"}, {"cut.json", "cut off"}}) {
    const test::Finished finished = diff({base_, folder_.path(file)});
    EXPECT_EQ(finished.exit_code, 1) << finished.error;
    EXPECT_THAT(finished.error, AllOf(HasSubstr(file), HasSubstr(text)));
    EXPECT_EQ(finished.output, "");
  }
}

TEST_F(DiffCommandTest, markdown_is_a_form_of_it) {
  EXPECT_THAT(diff({base_, slower_, "--markdown"}).output, HasSubstr("| ranks | strategy | p75 base |"));
}

TEST_F(DiffCommandTest, recorded_trainings_without_a_name_are_compared_as_same_only) {
  std::vector<std::string> results;
  for (const char* name : {"a", "b"}) {
    recordings::MadeJob job{.world = 1, .transfer_us = 0, .late_us = {0}};
    if (name[0] == 'b') job.gradients = 7;
    const std::string trace = folder_.path(std::string(name) + "_trace.json");
    write_file_atomically(trace, recordings::made_traces(job)[0].dump());
    results.push_back(folder_.path(std::string(name) + "_run.json"));
    ASSERT_EQ(test::run_here({"lockstep", "import", trace, "-o", results.back()}).exit_code, 0);
  }
  const test::Finished refused = diff(results);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.error, AllOf(HasSubstr("not known whether"), HasSubstr("--as-same")));
  const test::Finished asked = diff({results[0], results[1], "--as-same"});
  EXPECT_EQ(asked.exit_code, 0) << asked.error;
  EXPECT_THAT(asked.output, HasSubstr("Phases of a mean step"));
  EXPECT_EQ(diff({results[0], results[0]}).exit_code, 0) << "the same gradients";
  EXPECT_EQ(diff({base_, slower_, "--as-same"}).exit_code, 2) << "nothing is recorded";
}

}  // namespace
}  // namespace lockstep
