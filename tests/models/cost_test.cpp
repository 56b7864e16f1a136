#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "lockstep/models/model.h"

namespace lockstep::models {
namespace {

using nlohmann::json;

class TorchvisionCostTest : public testing::TestWithParam<std::string> {};

/// torchvision's multiply-adds were counted by hooks on its layers (4.09 G is published for resnet50), its
/// bytes by autograd's hooks on saved tensors.
TEST_P(TorchvisionCostTest, is_what_torchvisions_network_costs) {
  const json reference = json::parse(read_file(LOCKSTEP_REFERENCES "/costs.json")).at(GetParam());
  const ModelInfo& info = registry().get(GetParam());
  const ModelCost fp32 = measure_cost(info, info.image_size, false);
  EXPECT_EQ(fp32.multiply_adds, reference["multiply_adds"].get<int64_t>());
  EXPECT_EQ(fp32.activation_bytes, reference["fp32_bytes"].get<int64_t>());

  // Not equal under autocast, which keeps the logits in fp32.
  const auto bf16_bytes = reference["bf16_bytes"].get<double>();
  EXPECT_NEAR(static_cast<double>(measure_cost(info, info.image_size, true).activation_bytes), bf16_bytes,
              1e-3 * bf16_bytes);
}

INSTANTIATE_TEST_SUITE_P(All, TorchvisionCostTest,
                         testing::Values("resnet18", "resnet34", "resnet50", "resnet101", "resnext50_32x4d",
                                         "alexnet", "alexnet_caffe", "vgg11", "googlenet", "googlenet_aux",
                                         "inception_v3", "inception_v3_aux", "resnet20", "resnet56"),
                         [](const auto& test) { return test.param; });

TEST(ModelCostTest, follows_the_image_size) {
  const ModelInfo& info = registry().get("resnet18");
  const ModelCost full = measure_cost(info, 224, false);
  const ModelCost half = measure_cost(info, 112, false);
  // All but the last layer has a quarter of the positions (size 112 ends in 4x4, 224 in 7x7).
  EXPECT_NEAR(static_cast<double>(half.multiply_adds) / static_cast<double>(full.multiply_adds), 0.25, 0.03);
  EXPECT_NEAR(static_cast<double>(half.activation_bytes) / static_cast<double>(full.activation_bytes), 0.25,
              0.03);
}

TEST(ModelCostTest, counts_layers_by_hand) {
  // conv1 28*28*6*25, conv2 10*10*16*150, then the linear layers.
  EXPECT_EQ(measure_cost(registry().get("lenet5"), 28, false).multiply_adds,
            117'600 + 240'000 + 400 * 120 + 120 * 84 + 84 * 10);
  EXPECT_EQ(measure_cost(registry().get("mlp"), 32, false).multiply_adds, 3072 * 512 + 2 * 512 * 512 + 5120);
  // The image, the hidden layer, the logits.
  EXPECT_EQ(measure_cost(registry().get("trivial"), 32, false).activation_bytes, (3072 + 16 + 10) * 4);
}

}  // namespace
}  // namespace lockstep::models
