#include "lockstep/models/traced_model.h"

#include <cmath>
#include <fstream>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include "lockstep/base/error.h"
#include "lockstep/models/model.h"

namespace lockstep::models {
namespace {

using testing::HasSubstr;

const std::string kSmallNetwork = LOCKSTEP_REFERENCES "/small.pt2";

std::unique_ptr<Model> small_network() {
  return info_of(kSmallNetwork).create({.batch = 2});
}

/// The batch of tests/references/make_network.py.
std::vector<at::Tensor> one_batch() {
  at::Tensor plain = at::empty({2, 3, 8, 8});
  auto* values = plain.mutable_data_ptr<float>();
  for (int i = 0; i < plain.numel(); ++i) values[i] = static_cast<float>(std::sin(0.37 * i));
  at::Tensor labels = at::empty({2}, at::kLong);
  labels.mutable_data_ptr<int64_t>()[0] = 3;
  labels.mutable_data_ptr<int64_t>()[1] = 7;
  return {plain.contiguous(at::MemoryFormat::ChannelsLast), labels};
}

at::Tensor scale_of(double scale) {
  return at::full({}, scale, at::kFloat);
}

at::Tensor run_step(
    Model& model, double scale = 1, const std::function<void()>& forward_done = [] {}) {
  return model.whole_step()->run(one_batch(), {}, scale_of(scale), forward_done);
}

void clear_gradients(Model& model) {
  for (const at::Tensor& parameter : model.parameters().tensors()) parameter.mutable_grad().reset();
}

TEST(TracedModelTest, five_steps_are_those_of_eager_pytorch) {
  std::ifstream stream(LOCKSTEP_REFERENCES "/small.json");
  const auto expected = nlohmann::json::parse(stream);
  const std::unique_ptr<Model> model = small_network();
  std::vector<at::Tensor> momenta;
  for (const at::Tensor& parameter : model->parameters().tensors())
    momenta.push_back(at::zeros_like(parameter));
  for (const double loss : expected.at("losses")) {
    EXPECT_NEAR(run_step(*model).item<double>(), loss, 1e-5 * loss);
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < momenta.size(); ++i) {
      at::Tensor parameter = model->parameters().tensors()[i];
      momenta[i].mul_(0.9).add_(parameter.grad());
      parameter.sub_(momenta[i], 0.1);
    }
    clear_gradients(*model);
  }
  const auto check = [&](const std::vector<replica::NamedTensor>& tensors) {
    for (const auto& [name, value] : tensors) {
      const double sum = expected.at("absolute_sums").at(name);
      EXPECT_NEAR(value.detach().to(at::kDouble).abs().sum().item<double>(), sum, 1e-5 * sum + 1e-9) << name;
    }
  };
  check(model->parameters().trainable());
  check(model->parameters().buffers());
}

TEST(TracedModelTest, only_buffers_that_change_are_state) {
  const std::unique_ptr<Model> model = small_network();
  std::vector<std::string> names;
  for (const auto& buffer : model->parameters().buffers()) names.push_back(buffer.name);
  EXPECT_THAT(names,
              testing::ElementsAre("norm.running_mean", "norm.running_var", "norm.num_batches_tracked"));
}

/// Buckets can travel while the backward pass goes on.
TEST(TracedModelTest, gradients_are_announced_one_by_one_after_the_forward_pass) {
  const std::unique_ptr<Model> model = small_network();
  std::vector<std::string> events;
  for (const auto& [name, value] : model->parameters().trainable()) {
    value.register_hook([&events, name = name](const at::Tensor& /*gradient*/) { events.push_back(name); });
  }
  run_step(*model, 1, [&] { events.emplace_back("forward done"); });
  ASSERT_EQ(events.size(), 1 + model->parameters().trainable().size());
  EXPECT_EQ(events.front(), "forward done");
  EXPECT_THAT(events[1], HasSubstr("last."));
  EXPECT_EQ(events.back(), "first.weight");
}

TEST(TracedModelTest, gradients_add_up_and_have_the_scale) {
  const std::unique_ptr<Model> once = small_network();
  run_step(*once);
  const std::unique_ptr<Model> twice = small_network();
  run_step(*twice, 0.25);
  run_step(*twice, 0.25);
  for (size_t i = 0; i < once->parameters().tensors().size(); ++i) {
    const at::Tensor expected = once->parameters().tensors()[i].grad() * 0.5;
    EXPECT_TRUE(twice->parameters().tensors()[i].grad().allclose(expected, 1e-4, 1e-7)) << i;
  }
}

TEST(TracedModelTest, gradients_have_the_layout_of_their_parameters) {
  const std::unique_ptr<Model> model = small_network();
  run_step(*model);
  for (const at::Tensor& parameter : model->parameters().tensors()) {
    EXPECT_EQ(parameter.grad().strides(), parameter.strides());
    EXPECT_FALSE(parameter.grad().is_inference());
  }
}

TEST(TracedModelTest, gradients_are_kept_without_a_copy) {
  const std::unique_ptr<Model> model = small_network();
  std::map<std::string, const void*> announced;
  for (const auto& [name, value] : model->parameters().trainable()) {
    value.register_hook([&announced, name = name](const at::Tensor& gradient) {
      announced[name] = gradient.const_data_ptr();
    });
  }
  run_step(*model);
  for (const auto& [name, value] : model->parameters().trainable())
    EXPECT_EQ(value.grad().const_data_ptr(), announced.at(name)) << name;
}

/// Ranks may be threads of one process.
TEST(TracedModelTest, random_numbers_do_not_depend_on_what_other_threads_draw) {
  const auto losses = [](int64_t rank) {
    const std::unique_ptr<Model> model = info_of(LOCKSTEP_REFERENCES "/random.pt2").create({.batch = 2});
    std::vector<at::Tensor> samples = one_batch();
    samples.front() = samples.front().contiguous();
    std::vector<double> values;
    for (int64_t step = 0; step < 200; ++step) {
      const kernels::Context context{.step = step, .first_sample = 2 * rank};
      values.push_back(model->whole_step()->run(samples, context, scale_of(1), [] {}).item<double>());
    }
    return values;
  };
  const std::vector<std::vector<double>> alone{losses(0), losses(1)};
  std::vector<std::vector<double>> together(2);
  {
    const std::jthread other([&] { together[1] = losses(1); });
    together[0] = losses(0);
  }
  EXPECT_EQ(together, alone);
  EXPECT_NE(alone[0], alone[1]);
  EXPECT_NE(alone[0][0], alone[0][1]);
}

TEST(TracedModelTest, an_exception_of_a_callback_comes_out_as_it_was_thrown) {
  const std::unique_ptr<Model> model = small_network();
  EXPECT_THROW(run_step(*model, 1, [] { throw TimeoutError("late"); }), TimeoutError);
  clear_gradients(*model);
  EXPECT_GT(run_step(*model).item<double>(), 0);
}

TEST(TracedModelTest, inputs_of_another_shape_end_in_an_error) {
  const std::unique_ptr<Model> model = small_network();
  std::vector<at::Tensor> samples = one_batch();
  samples.back() = samples.back().narrow(0, 0, 1);
  EXPECT_THROW(model->whole_step()->run(samples, {}, scale_of(1), [] {}), Error);
}

TEST(TracedModelTest, there_is_no_forward_pass_alone) {
  EXPECT_THROW(small_network()->forward(one_batch().front(), {}), Error);
}

TEST(TracedModelTest, a_network_is_found_by_the_name_of_its_file) {
  const ModelInfo& info = info_of(kSmallNetwork);
  EXPECT_EQ(info.parameters, info.file->parameter_count());
  EXPECT_EQ(info.default_batch, 2);
  EXPECT_GT(measure_cost(info, 0, false).activation_bytes, 0);
  EXPECT_EQ(info_of("lenet5").file, nullptr);
  EXPECT_THROW(info_of("lenet55"), ConfigError);
  EXPECT_THROW(info.create({.batch = 3}), ConfigError);
}

}  // namespace
}  // namespace lockstep::models
