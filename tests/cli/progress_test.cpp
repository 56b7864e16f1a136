#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/clock.h"

#include "progress_line.h"

namespace lockstep::cli {
namespace {

using testing::HasSubstr;

TEST(ProgressLineTest, between_two_steps_the_time_left_counts_down_and_the_rate_stays) {
  const train::SweepOptions options{.models = {"lenet5"},
                                    .batches = {10},
                                    .ranks = {1},
                                    .strategies = {"single"},
                                    .pacing = {.warmup_steps = 0, .steps = 10}};
  const std::vector<train::RowPlan> rows = train::plan_rows(options);
  launch::Progress progress;
  ProgressLine line(rows, progress);
  testing::internal::CaptureStderr();
  line.row_begins(0);
  testing::internal::GetCapturedStderr();
  progress.begin(rows[0].label());
  const double began_s = now_s();
  EXPECT_THAT(line.line(began_s + 1), HasSubstr("preparing"));
  progress.completed(2);
  EXPECT_THAT(line.line(began_s + 10.01), HasSubstr("step 2/10, 2.0 images/s, 40 s left"));
  EXPECT_THAT(line.line(began_s + 14.01), HasSubstr("step 2/10, 2.0 images/s, 36 s left"));
  progress.completed(3);
  EXPECT_THAT(line.line(began_s + 15.01), HasSubstr("step 3/10, 2.0 images/s, 35 s left"));
}

}  // namespace
}  // namespace lockstep::cli
