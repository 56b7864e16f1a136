#include "lockstep/network_file/recorded_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

#include "scratch_folder.h"

namespace lockstep::network_file {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Field;

/// A row of rank 0, whose backward takes 4 s of the ranks' mean of 6 s, and which makes gradients in a
/// second.
RecordedTraining training_of(const std::string& more = "") {
  const test::ScratchFolder folder;
  const std::string path = folder.path("run.json");
  write_file_atomically(
      path, R"({"lockstep": {"runs": [{"model": "mine", "ranks": 2, "batch_per_rank": 8,)" + more + R"(
      "breakdown": {"phases": {"backward_s": 6}, "ranks": [{"phases": {"backward_s": 4}}]},
      "recorded": {"gradients": [{"elements": 1, "after_backward_s": 0.2},
                                 {"elements": 2, "after_backward_s": 1}]}}]}})");
  return read_recorded_training(path);
}

TEST(RecordedTrainingTest, the_batch_of_a_step_is_that_of_all_its_micro_batches) {
  EXPECT_EQ(training_of().batch, 8);
  EXPECT_EQ(training_of(R"("accumulate": 4,)").batch, 32);
  EXPECT_THROW(training_of(R"("accumulate": 1000000000,)"), Error);
}

TEST(RecordedTrainingTest, gradients_are_final_at_the_end_of_the_last_backward_pass) {
  const auto ready = [](double share) { return Field(&RecordedGradient::ready, DoubleNear(share, 1e-9)); };
  EXPECT_THAT(training_of(R"("accumulate": 4,)").gradients, ElementsAre(ready(0.8), ready(1)));
}

/// A replay would sleep for as long.
TEST(RecordedTrainingTest, phases_that_the_steps_do_not_contain_are_refused) {
  const auto with = [](const std::string& phases) {
    const test::ScratchFolder folder;
    const std::string path = folder.path("run.json");
    write_file_atomically(path, R"({"lockstep": {"runs": [{"model": "mine", "ranks": 1, "batch_per_rank": 8,
      "breakdown": {"ranks": [{)" + phases +
                                    R"(}]},
      "recorded": {"gradients": [{"elements": 1, "after_backward_s": 1}]}}]}})");
    return read_recorded_training(path);
  };
  const std::string series =
      R"("phases": {"backward_s": 2, "step_s": 3}, "steps": {"input_s": [0, 0], "other_s": [0, 0],
         "forward_s": [1, 1], "backward_s": [2, 2], "optimizer_s": [0, )";
  EXPECT_EQ(with(series + "0]}").ranks.front().size(), 2u);
  EXPECT_THROW(with(series + "18446744073709551616]}"), Error);
  EXPECT_THROW(with(R"("phases": {"backward_s": 1e30})"), Error);
}

}  // namespace
}  // namespace lockstep::network_file
