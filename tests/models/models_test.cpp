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
    {"resnet18", 11'689'512},        {"resnet34", 21'797'672},         {"resnet50", 25'557'032},
    {"resnet101", 44'549'160},       {"resnet152", 60'192'808},        {"resnet50_v1", 25'557'032},
    {"resnext50_32x4d", 25'028'904}, {"resnext101_32x8d", 88'791'336}, {"lenet5", 61'706},
    {"mlp", 2'103'818},              {"trivial", 49'338},
};

class EveryModelTest : public testing::TestWithParam<std::pair<std::string, int64_t>> {};

TEST_P(EveryModelTest, has_the_published_number_of_parameters) {
  const auto& [name, published] = GetParam();
  const ModelInfo& info = registry().get(name);
  EXPECT_EQ(info.parameters, published);
  EXPECT_EQ(info.create({})->parameters().count(), published);
}

TEST_P(EveryModelTest, gives_one_row_of_logits_per_image_at_its_smallest_size) {
  const at::NoGradGuard no_grad;
  const ModelInfo& info = registry().get(GetParam().first);
  const at::Tensor images = at::ones({2, info.channels, info.min_image_size, info.min_image_size});
  const at::Tensor logits = info.create({})->forward(images, {});
  EXPECT_EQ(logits.sizes(), (std::vector<int64_t>{2, info.classes}));
}

INSTANTIATE_TEST_SUITE_P(All, EveryModelTest, testing::ValuesIn(kPublishedParameters),
                         [](const auto& test) { return test.param.first; });

}  // namespace
}  // namespace lockstep::models
