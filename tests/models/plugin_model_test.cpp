#include "lockstep/models/plugin_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "lockstep/base/error.h"
#include "lockstep/models/model.h"

namespace lockstep::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kNetworks = LOCKSTEP_TEST_NETWORKS;

std::unique_ptr<Model> create_from_plugin(const std::string& network, uint64_t seed = 1) {
  return info_of(kNetworks + ":" + network).create({.seed = seed});
}

std::vector<std::string> names_of(const std::vector<replica::NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const auto& tensor : tensors) names.push_back(tensor.name);
  return names;
}

std::vector<at::Tensor> images_and_labels() {
  return {at::randn({4, 3, 2, 2}), at::randint(5, {4}, at::kLong)};
}

double loss_of_step(Model& model, const std::vector<at::Tensor>& samples, int64_t step) {
  const at::Tensor scale = at::full({}, 1.0, at::kFloat);
  return model.whole_step()->run(samples, {.seed = 1, .step = step}, scale, [] {}).item<double>();
}

TEST(PluginModelTest, a_step_gives_the_loss_and_the_scaled_gradients_of_autograd) {
  const std::unique_ptr<Model> model = create_from_plugin("mlp");
  const std::vector<at::Tensor> samples = images_and_labels();
  const std::vector<at::Tensor> parameters = model->parameters().tensors();
  ASSERT_EQ(parameters.size(), 4U);
  const at::Tensor hidden = at::linear(samples[0].flatten(1), parameters[0], parameters[1]).relu();
  const at::Tensor expected =
      at::cross_entropy_loss(at::linear(hidden, parameters[2], parameters[3]), samples[1]);
  expected.backward();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    gradients.push_back(parameter.grad().clone());
    parameter.mutable_grad().reset();
  }
  bool forward_done = false;
  const at::Tensor loss = model->whole_step()->run(samples, {}, at::full({}, 0.5, at::kFloat), [&] {
    forward_done = true;
    EXPECT_FALSE(parameters[0].grad().defined());
  });
  EXPECT_TRUE(forward_done);
  EXPECT_TRUE(loss.equal(expected.detach()));
  for (size_t i = 0; i < parameters.size(); ++i)
    EXPECT_TRUE(parameters[i].grad().allclose(gradients[i] * 0.5)) << i;
}

TEST(PluginModelTest, initial_values_follow_from_the_seed) {
  const auto first = [](uint64_t seed) { return create_from_plugin("mlp", seed)->parameters().tensors()[0]; };
  EXPECT_TRUE(first(1).equal(first(1)));
  EXPECT_FALSE(first(1).equal(first(2)));
}

TEST(PluginModelTest, dropout_is_seen_and_repeats_step_by_step) {
  EXPECT_FALSE(info_of(kNetworks + ":mlp").file->draws_random_numbers);
  EXPECT_TRUE(info_of(kNetworks + ":with_dropout").file->draws_random_numbers);
  const std::unique_ptr<Model> model = create_from_plugin("with_dropout");
  const std::vector<at::Tensor> samples = images_and_labels();
  const double once = loss_of_step(*model, samples, 3);
  EXPECT_NE(loss_of_step(*model, samples, 4), once);
  EXPECT_EQ(loss_of_step(*model, samples, 3), once);
}

TEST(PluginModelTest, shared_parameters_count_once_and_frozen_ones_are_not_trained) {
  const std::unique_ptr<Model> model = create_from_plugin("mixed");
  EXPECT_THAT(names_of(model->parameters().trainable()), ElementsAre("convolution.weight", "shared.weight"));
  EXPECT_THAT(names_of(model->parameters().buffers()), ElementsAre("frozen.weight"));
  EXPECT_EQ(info_of(kNetworks + ":mixed").parameters, 15 + 25);
}

TEST(PluginModelTest, images_and_convolutions_have_channels_last) {
  const ModelInfo& info = info_of(kNetworks + ":mixed");
  EXPECT_TRUE(info.file->channels_last);
  EXPECT_TRUE(info.file->inputs.front().channels_last);
  const at::Tensor weight = info.create({})->parameters().tensors().front();
  EXPECT_THAT(weight.strides().vec(), ElementsAre(3, 1, 3, 3));
  EXPECT_FALSE(info_of(kNetworks + ":mlp").file->channels_last);
}

TEST(PluginModelTest, the_description_tells_what_the_network_takes) {
  const ModelInfo& info = info_of(kNetworks + ":mlp");
  EXPECT_EQ(info.file->unit, "image");
  EXPECT_EQ(info.default_batch, 8);
  EXPECT_THAT(info.file->inputs.front().shape, ElementsAre(3, 2, 2));
  EXPECT_EQ(info.file->targets.front().type, network_file::Type::kInt64);
  EXPECT_EQ(info.file->targets.front().high, 5);
  EXPECT_NO_THROW(info.file->check_step(1234, "fp32", "cpu"));
  EXPECT_THROW(create_from_plugin("mlp")->forward(images_and_labels().front(), {}), Error);
}

struct RefusedPlugin {
  std::string name;
  std::string text;
};

TEST(PluginModelTest, plugins_that_cannot_be_used_are_refused_with_the_reason) {
  const std::vector<RefusedPlugin> cases{
      {"./nowhere.so:mlp", "there is no file ./nowhere.so"},
      {LOCKSTEP_TEST_EMPTY ":mlp", "offers no networks: it has no symbol lockstep_networks"},
      {LOCKSTEP_TEST_STALE ":mlp",
       "was built with version 99 of lockstep/models/network_plugin.h and LibTorch 2.5"},
      {kNetworks + ":mlpp",
       "it has no network 'mlpp'; it has double_precision, failing, many_losses, mixed, mlp"},
      {kNetworks, "which of its networks is wanted? It has double_precision, failing"},
      {kNetworks + ":", "which of its networks is wanted?"},
      {kNetworks + ":failing", "it could not be built: no weights here"},
      {kNetworks + ":no_loss", "it has no loss"},
      {kNetworks + ":many_losses", "is not one number: it has the shape [2, 2, 2]"},
      {kNetworks + ":other_shape", "the forward pass of"},
      {kNetworks + ":no_values", "'labels' has no possible values"},
      {kNetworks + ":double_precision", "its parameter 'first.weight' is not an fp32 tensor on the CPU"},
      {kNetworks + ":strange_unit", "its unit 'Bild/s'"},
  };
  for (const RefusedPlugin& one : cases) {
    try {
      info_of(one.name);
      ADD_FAILURE() << one.name << " was taken";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(one.text));
      EXPECT_THAT(error.what(), HasSubstr("--model " + one.name));
    }
  }
}

TEST(PluginModelTest, names_of_plugins_are_told_from_others) {
  EXPECT_TRUE(is_from_file("./libmine.so:mine"));
  EXPECT_TRUE(is_from_file("libmine.so"));
  EXPECT_TRUE(is_from_file("mine.pt2"));
  EXPECT_FALSE(is_from_file("resnet50"));
}

}  // namespace
}  // namespace lockstep::models
