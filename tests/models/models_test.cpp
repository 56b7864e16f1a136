#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>

#include "lockstep/base/error.h"
#include "lockstep/models/model.h"

namespace lockstep::models {
namespace {

/// As published: torchvision's documentation for its networks, the layers' sizes added up by hand for ours.
/// lenet5: 156 + 2416 + 48120 + 10164 + 850. mlp: 3072*512+512 + 2*(512*512+512) + 512*10+10.
/// trivial: 3072*16+16 + 16*10+10.
const std::vector<std::pair<std::string, int64_t>> kPublishedParameters = {
    {"resnet18", 11'689'512},
    {"resnet34", 21'797'672},
    {"resnet50", 25'557'032},
    {"resnet101", 44'549'160},
    {"resnet152", 60'192'808},
    {"resnet50_v1", 25'557'032},
    {"resnext50_32x4d", 25'028'904},
    {"resnext101_32x8d", 88'791'336},
    {"alexnet", 61'100'840},
    {"alexnet_caffe", 60'965'224},
    {"vgg11", 132'863'336},
    {"vgg16", 138'357'544},
    {"vgg19", 143'667'240},
    {"googlenet", 6'624'904},
    {"googlenet_aux", 13'004'888},
    {"inception_v3", 23'834'568},
    {"inception_v3_aux", 27'161'264},
    {"resnet20", 269'722},
    {"resnet56", 853'018},
    {"lenet5", 61'706},
    {"mlp", 2'103'818},
    {"trivial", 49'338},
};

class EveryModelTest : public testing::TestWithParam<std::pair<std::string, int64_t>> {};

TEST_P(EveryModelTest, has_the_published_parameters_and_runs_at_its_smallest_size) {
  const at::NoGradGuard no_grad;
  const auto& [name, published] = GetParam();
  const ModelInfo& info = registry().get(name);
  const std::unique_ptr<Model> model = info.create({});
  EXPECT_EQ(info.parameters, published);
  EXPECT_EQ(model->parameters().count(), published);
  const std::vector<at::Tensor> tensors = model->parameters().tensors();
  EXPECT_EQ(info.parameter_tensors, std::ssize(tensors));
  EXPECT_EQ(info.largest_parameter, std::ranges::max_element(tensors, {}, &at::Tensor::numel)->numel());

  const at::Tensor images = at::ones({2, info.channels, info.min_image_size, info.min_image_size});
  EXPECT_THAT(model->forward(images, {}).logits.sizes(), testing::ElementsAre(2, info.classes));
}

TEST_P(EveryModelTest, says_how_many_multiply_adds_an_image_takes) {
  const ModelInfo& info = registry().get(GetParam().first);
  EXPECT_EQ(info.multiply_adds, measure_cost(info, info.image_size, false).multiply_adds);
}

TEST(ModelsTest, are_all_tested_above) {
  std::vector<std::string> tested;
  for (const auto& [name, published] : kPublishedParameters) tested.push_back(name);
  EXPECT_EQ(registry().names(), tested);
}

TEST(ModelsTest, offer_the_nearest_names) {
  EXPECT_THAT([] { registry().get("resnet5"); },
              testing::ThrowsMessage<ConfigError>(testing::HasSubstr("resnet50")));
}

TEST(ModelsTest, refuse_images_of_a_size_that_they_are_not_made_for) {
  const ModelInfo& resnet18 = registry().get("resnet18");
  EXPECT_NO_THROW(check_image_size("resnet18", resnet18, 32));
  EXPECT_THAT(
      [&] { check_image_size("resnet18", resnet18, 31); },
      testing::ThrowsMessage<ConfigError>("resnet18 takes images from 32x32 to 4096x4096, not of 31x31"));
  EXPECT_NO_THROW(check_image_size("lenet5", registry().get("lenet5"), 28));
  EXPECT_THAT([] { check_image_size("lenet5", registry().get("lenet5"), 29); },
              testing::ThrowsMessage<ConfigError>("lenet5 takes images of 28x28, not of 29x29"));
}

/// Evaluation normalises by the running statistics: an image's logits then do not depend on its neighbours,
/// and nothing is counted.
TEST(ModelsTest, evaluate_each_image_by_itself) {
  const at::NoGradGuard no_grad;
  const std::unique_ptr<Model> model = registry().get("resnet18").create({});
  kernels::Context evaluation;
  evaluation.training = false;
  const at::Tensor images = at::ones({2, 3, 32, 32});
  images.select(0, 1).mul_(-3);
  const at::Tensor together = model->forward(images, evaluation).logits;
  const at::Tensor alone = model->forward(images.narrow(0, 0, 1), evaluation).logits;
  const double scale = together.abs().max().item<double>();
  EXPECT_LT(together.narrow(0, 0, 1).sub(alone).abs().max().item<double>(), 1e-5 * scale);
  for (const auto& [name, value] : model->parameters().buffers()) {
    EXPECT_TRUE(value.eq(name.ends_with("running_var") ? 1 : 0).all().item<bool>()) << name;
  }
}

/// Ranks that share a batch drop what one rank on all of it drops.
TEST(ModelsTest, drop_out_by_the_samples_place_in_the_global_batch) {
  const at::NoGradGuard no_grad;
  const std::unique_ptr<Model> model = registry().get("alexnet").create({});
  const at::Tensor images = at::ones({2, 3, 63, 63});
  const at::Tensor together = model->forward(images, {}).logits;
  const auto second_alone = [&](int64_t place) {
    return model->forward(images.narrow(0, 1, 1), {.first_sample = place}).logits;
  };
  const double scale = together.abs().max().item<double>();
  EXPECT_LT(together.narrow(0, 1, 1).sub(second_alone(1)).abs().max().item<double>(), 1e-5 * scale);
  EXPECT_GT(together.narrow(0, 1, 1).sub(second_alone(0)).abs().max().item<double>(), 1e-2 * scale);
}

TEST(ModelsTest, auxiliary_classifiers_speak_in_training_only) {
  const at::NoGradGuard no_grad;
  const ModelInfo& info = registry().get("googlenet_aux");
  const std::unique_ptr<Model> model = info.create({});
  const at::Tensor images = at::ones({2, 3, 32, 32});
  const std::vector<AuxiliaryLogits> auxiliary = model->forward(images, {}).auxiliary;
  ASSERT_EQ(auxiliary.size(), 2u);
  for (const auto& [logits, weight] : auxiliary) {
    EXPECT_THAT(logits.sizes(), testing::ElementsAre(2, info.classes));
    EXPECT_EQ(weight, 0.3);
  }
  EXPECT_TRUE(model->forward(images, {.training = false}).auxiliary.empty());
}

INSTANTIATE_TEST_SUITE_P(All, EveryModelTest, testing::ValuesIn(kPublishedParameters),
                         [](const auto& test) { return test.param.first; });

}  // namespace
}  // namespace lockstep::models
