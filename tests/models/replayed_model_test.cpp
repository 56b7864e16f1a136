#include "lockstep/models/replayed_model.h"

#include <chrono>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include "lockstep/base/error.h"

namespace lockstep::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A result file with these rows, written anew for every test.
std::string result_file(const std::string& rows) {
  const std::string path = testing::TempDir() + "replayed_run.json";
  std::ofstream(path) << R"({"lockstep": {"machine": {"cores": 2}, "runs": [)" << rows << "]}}";
  return path;
}

/// Two ranks of which the second takes longer, on GPUs: nothing depends on how busy the test's machine is.
std::string recorded_row(
    const std::string& steps = R"([[{"input_s": 0.001, "forward_s": 0.002, "backward_s": 0.004}],
       [{"input_s": 0.001, "forward_s": 0.02, "backward_s": 0.04}]])") {
  return R"({"model": "mine", "unit": "token", "batch_per_rank": 4, "device": "cuda", "recorded": {"gradients": [
      {"shape": [3], "ready": 1}, {"shape": [2, 5], "ready": 0.5}], "steps": )" +
         steps + "}}";
}

std::string broken_down_row(const std::string& phases) {
  return R"({"model": "mine", "ranks": 1, "batch_per_rank": 4, "breakdown": {"ranks": [{"phases": )" +
         phases +
         R"(, "buckets": [{"bytes": 40, "ready_s": 0.03}, {"bytes": 8, "ready_s": 0.06}]}], "phases": )" +
         phases + "}}";
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
  EXPECT_THAT(tensors[1].sizes(), ElementsAre(2, 5));
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
  const std::string row =
      recorded_row(R"([[{"forward_s": 0, "backward_s": 0}, {"forward_s": 0.04, "backward_s": 0.08}]])");
  const std::unique_ptr<Model> model = replayed_network("replay-means:" + result_file(row)).create({});
  for (int step = 0; step < 3; ++step) {
    const auto [forward_s, step_s] = times_of_step(*model, 0);
    EXPECT_GE(forward_s, 0.02);
    EXPECT_GE(step_s, 0.06);
  }
}

TEST(ReplayedModelTest, a_row_with_a_breakdown_is_replayed_bucket_by_bucket) {
  const ModelInfo info = replayed_network(
      replay(broken_down_row(R"({"input_s": 0.01, "forward_s": 0.02, "backward_s": 0.03, "step_s": 0.1})")));
  EXPECT_EQ(info.parameters, 12);
  const auto [forward_s, step_s] = times_of_step(*info.create({}), 0);
  EXPECT_GE(forward_s, 0.03);
  EXPECT_GE(step_s, 0.06);
}

TEST(ReplayedModelTest, a_file_that_cannot_be_replayed_is_refused_by_name) {
  EXPECT_THAT(refusal(""), HasSubstr("replayed_run.json' has no recorded training"));
  EXPECT_THAT(refusal(recorded_row() + "," + recorded_row()), HasSubstr("has 2 rows that could be replayed"));
  EXPECT_THAT(refusal(recorded_row("[]")), HasSubstr("of as many steps of all ranks"));
  EXPECT_THAT(refusal(recorded_row(R"([[{"forward_s": 1}], []])")),
              HasSubstr("of as many steps of all ranks"));
  EXPECT_THAT(refusal(recorded_row("7")), HasSubstr("recorded.steps is 7"));
  EXPECT_THROW(replayed_network("replay:no_such_file.json"), ConfigError);
}

}  // namespace
}  // namespace lockstep::models
