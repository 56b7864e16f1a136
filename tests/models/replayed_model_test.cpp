#include "lockstep/models/replayed_model.h"

#include <chrono>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"

#include "scratch_folder.h"

namespace lockstep::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A result file with these rows, written anew for every test.
std::string result_file(const std::string& rows) {
  static const test::ScratchFolder folder;
  const std::string path = folder.path("run.json");
  std::ofstream(path) << R"({"lockstep": {"machine": {"cores": 2}, "runs": [)" << rows << "]}}";
  return path;
}

std::string rank_of(const std::string& phases, const std::string& steps = "null",
                    const std::string& buckets = "") {
  return fmt::format(R"({{"phases": {}, "steps": {}, "buckets": [{}]}})", phases, steps, buckets);
}

/// A row on GPUs, so that nothing depends on how busy the test's machine is.
std::string row_of(const std::string& ranks, const std::string& gradients = "") {
  return fmt::format(
      R"({{"model": "mine", "unit": "token", "ranks": 2, "batch_per_rank": 4, "device": "cuda",
          "breakdown": {{"phases": {{"backward_s": 0.04, "step_s": 0.1}}, "ranks": [{}]}},
          "recorded": {{"gradients": [{}]}}}})",
      ranks, gradients);
}

constexpr const char* kGradients =
    R"({"elements": 3, "after_backward_s": 0.04}, {"elements": 10, "after_backward_s": 0.02})";

/// Two ranks of which the second takes longer.
std::string recorded_row() {
  return row_of(rank_of(R"({"input_s": 0.001, "forward_s": 0.002, "backward_s": 0.004})") + "," +
                    rank_of(R"({"input_s": 0.001, "forward_s": 0.02, "backward_s": 0.04})"),
                kGradients);
}

std::string replay(const std::string& row) {
  return "replay:" + result_file(row);
}

std::string refusal(const std::string& rows) {
  try {
    replayed_network(replay(rows));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

/// Seconds until the forward pass was over and until the step was, of the rank.
std::pair<double, double> times_of_step(Model& model, int64_t rank) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  auto forward = begin;
  model.whole_step()->run({at::ones({4})}, {.first_sample = 4 * rank}, at::full({}, 1.0),
                          [&] { forward = Clock::now(); });
  return {std::chrono::duration<double>(forward - begin).count(),
          std::chrono::duration<double>(Clock::now() - begin).count()};
}

TEST(ReplayedModelTest, a_network_has_the_tensors_that_were_recorded) {
  const ModelInfo info = replayed_network(replay(recorded_row()));
  EXPECT_EQ(info.parameters, 13);
  EXPECT_EQ(info.default_batch, 4);
  EXPECT_EQ(info.file->unit, "token");
  const std::vector<at::Tensor> tensors = info.create({})->parameters().tensors();
  ASSERT_EQ(tensors.size(), 2U);
  // The last to be final comes first.
  EXPECT_THAT(tensors[0].sizes(), ElementsAre(3));
  EXPECT_THAT(tensors[1].sizes(), ElementsAre(10));
}

TEST(ReplayedModelTest, micro_batches_are_replayed_as_one_batch) {
  std::string row = recorded_row();
  row.replace(row.find("\"batch_per_rank\""), 0, "\"accumulate\": 3, ");
  EXPECT_EQ(replayed_network(replay(row)).default_batch, 12);
}

TEST(ReplayedModelTest, a_step_takes_the_times_of_its_rank) {
  const std::unique_ptr<Model> model = replayed_network(replay(recorded_row())).create({});
  for (const auto& [rank, times] :
       {std::pair{1, std::pair{0.021, 0.061}}, {0, {0.003, 0.007}}, {2, {0.003, 0.007}}}) {
    const auto [forward_s, step_s] = times_of_step(*model, rank);
    EXPECT_GE(forward_s, times.first) << rank;
    EXPECT_GE(step_s, times.second) << rank;
  }
}

TEST(ReplayedModelTest, a_processor_is_busy_for_as_long_as_it_was_in_each_phase) {
  const std::string row = fmt::format(
      R"({{"model": "mine", "ranks": 1, "batch_per_rank": 4, "device": "cpu", "breakdown": {{"ranks": [
          {{"phases": {{"forward_s": 1, "backward_s": 2, "optimizer_s": 3}}, "buckets": [{}],
            "processor": {{"before_s": 0.02, "backward_s": 0.04, "optimizer_s": 3}}}}]}}}})",
      R"({"bytes": 40, "ready_s": 2}, {"bytes": 8, "ready_s": 3})");
  const std::unique_ptr<Model> model = replayed_network(replay(row)).create({});
  double begin_s = processor_clock_s(CLOCK_THREAD_CPUTIME_ID), forward_s = 0;
  model->whole_step()->run({at::ones({4})}, {}, at::full({}, 1.0), [&] {
    forward_s = processor_clock_s(CLOCK_THREAD_CPUTIME_ID) - begin_s;
    begin_s += forward_s;
  });
  const double backward_s = processor_clock_s(CLOCK_THREAD_CPUTIME_ID) - begin_s;
  EXPECT_GE(forward_s, 0.02);
  EXPECT_GE(backward_s, 0.04);
  // The update is lockstep's own, which the replay's strategy makes.
  EXPECT_LT(forward_s + backward_s, 1);
}

TEST(ReplayedModelTest, gradients_are_those_of_the_loss_and_final_when_they_were) {
  const std::unique_ptr<Model> model = replayed_network(replay(recorded_row())).create({});
  const std::vector<at::Tensor> tensors = model->parameters().tensors();
  std::vector<size_t> order;
  for (size_t i = 0; i < tensors.size(); ++i)
    tensors[i].register_hook([&order, i](const at::Tensor& /*gradient*/) { order.push_back(i); });
  const at::Tensor samples = at::full({4}, 3.0);
  const at::Tensor loss = model->whole_step()->run({samples}, {}, at::full({}, 0.5), [] {});
  EXPECT_THAT(order, ElementsAre(1, 0));
  for (const at::Tensor& tensor : tensors) EXPECT_TRUE(tensor.grad().allclose(tensor.detach() * 1.5));
  EXPECT_TRUE(loss.allclose(tensors[0].detach().square().sum() * 1.5));
}

TEST(ReplayedModelTest, means_take_the_place_of_single_steps) {
  const std::string row = row_of(
      rank_of(
          "{}",
          R"({"input_s": [0, 0], "other_s": [0, 0], "optimizer_s": [0, 0], "forward_s": [0, 0.04], "backward_s": [0, 0.08]})"),
      kGradients);
  const std::unique_ptr<Model> model = replayed_network("replay-means:" + result_file(row)).create({});
  for (int step = 0; step < 3; ++step) {
    const auto [forward_s, step_s] = times_of_step(*model, 0);
    EXPECT_GE(forward_s, 0.02);
    EXPECT_GE(step_s, 0.06);
  }
}

TEST(ReplayedModelTest, a_row_without_gradients_is_replayed_bucket_by_bucket) {
  const ModelInfo info = replayed_network(
      replay(row_of(rank_of(R"({"input_s": 0.01, "forward_s": 0.02, "backward_s": 0.03})", "null",
                            R"({"bytes": 40, "ready_s": 0.03}, {"bytes": 8, "ready_s": 0.06})"))));
  EXPECT_EQ(info.parameters, 12);
  const auto [forward_s, step_s] = times_of_step(*info.create({}), 0);
  EXPECT_GE(forward_s, 0.03);
  EXPECT_GE(step_s, 0.06);
}

TEST(ReplayedModelTest, of_one_training_the_row_with_the_most_ranks_is_replayed) {
  std::string larger = recorded_row();
  larger.replace(larger.find("\"ranks\": 2"), 10, "\"ranks\": 4");
  larger.replace(larger.find("10,"), 3, "20,");
  EXPECT_EQ(replayed_network(replay(recorded_row() + "," + larger)).parameters, 23);
  larger.replace(larger.find("mine"), 4, "none");
  EXPECT_THAT(refusal(recorded_row() + "," + larger), HasSubstr("has 2 rows that could be replayed"));
}

TEST(ReplayedModelTest, a_file_that_cannot_be_replayed_is_refused_by_name) {
  EXPECT_THAT(refusal(""), HasSubstr("run.json' has no row that says when which gradients"));
  EXPECT_THAT(refusal(row_of("", kGradients)), HasSubstr("has no row that says when"));
  EXPECT_THAT(refusal(recorded_row() + "," + recorded_row()), HasSubstr("has 2 rows that could be replayed"));
  EXPECT_THAT(
      refusal(row_of(
          rank_of("{}",
                  R"({"input_s": [], "other_s": [], "optimizer_s": [], "forward_s": [], "backward_s": []})"),
          kGradients)),
      HasSubstr("of as many steps of all ranks"));
  EXPECT_THAT(refusal(row_of(rank_of("7"), kGradients)), HasSubstr("phases is 7"));
  EXPECT_THROW(replayed_network("replay:no_such_file.json"), ConfigError);
}

}  // namespace
}  // namespace lockstep::models
