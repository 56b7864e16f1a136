#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/models/model.h"

namespace lockstep::models {
namespace {

using kernels::Layer;
using kernels::LayerEnding;
using kernels::LayerKind;
using testing::ElementsAre;

std::vector<Layer> layers_of(const std::string& model, int64_t batch = 1) {
  const ModelInfo& info = registry().get(model);
  return list_layers(info, info.image_size, batch);
}

const Layer& named(const std::vector<Layer>& layers, const std::string& name) {
  const auto found = std::ranges::find(layers, name, [](const Layer& layer) { return layer.form.name; });
  if (found == layers.end()) throw std::runtime_error("no layer " + name);
  return *found;
}

class LayersTest : public testing::TestWithParam<std::string> {};

/// A layer that the networks' own counts leave out would be missing here, one in two layers would be twice.
TEST_P(LayersTest, cost_together_what_the_network_costs) {
  const std::vector<Layer> layers = layers_of(GetParam(), 3);
  int64_t multiply_adds = 0;
  for (const Layer& layer : layers) multiply_adds += layer.multiply_adds();
  EXPECT_EQ(multiply_adds, 3 * registry().get(GetParam()).multiply_adds);
}

TEST_P(LayersTest, but_for_those_that_see_the_image_have_an_input_that_learns) {
  const std::vector<Layer> layers = layers_of(GetParam());
  EXPECT_FALSE(layers.front().input_learns);
  EXPECT_TRUE(
      std::all_of(layers.begin() + 1, layers.end(), [](const Layer& layer) { return layer.input_learns; }));
}

INSTANTIATE_TEST_SUITE_P(All, LayersTest,
                         testing::Values("resnet18", "resnet50", "resnext50_32x4d", "alexnet",
                                         "alexnet_caffe", "googlenet_aux", "inception_v3", "resnet20",
                                         "lenet5", "mlp"),
                         [](const auto& test) { return test.param; });

TEST(LayerListTest, has_a_residual_networks_blocks_in_the_order_in_which_they_begin) {
  const std::vector<Layer> layers = layers_of("resnet50", 16);
  EXPECT_EQ(layers.size(), 53 + 3);
  std::vector<std::string> names;
  for (size_t i = 0; i < 7; ++i) names.push_back(layers[i].form.name + ": " + layers[i].text());
  EXPECT_THAT(names, ElementsAre("conv1: conv 7x7/2 3->64 224x224 + norm + relu",
                                 "max_pool1: max pool 3x3/2 64 112x112",
                                 "layer1.0.conv1: conv 1x1 64 56x56 + norm + relu",
                                 "layer1.0.conv2: conv 3x3 64 56x56 + norm + relu",
                                 "layer1.0.conv3: conv 1x1 64->256 56x56 + norm + add + relu",
                                 "layer1.0.downsample.0: conv 1x1 64->256 56x56 + norm",
                                 "layer1.1.conv1: conv 1x1 256->64 56x56 + norm + relu"));
  EXPECT_EQ(layers.back().text(), "linear 2048->1000");
  EXPECT_EQ(layers[layers.size() - 2].text(), "avg pool 2048 7x7");
  const Layer& strided = named(layers, "layer2.0.conv2");
  EXPECT_THAT(strided.in, ElementsAre(16, 128, 56, 56));
  EXPECT_THAT(strided.out, ElementsAre(16, 128, 28, 28));
  EXPECT_EQ(strided.weights(), 128 * 128 * 9);
  EXPECT_EQ(strided.multiply_adds(), int64_t{16} * 28 * 28 * 128 * 128 * 9);
  EXPECT_EQ(strided.backward_multiply_adds(), 2 * strided.multiply_adds());
  EXPECT_EQ(layers.front().backward_multiply_adds(), layers.front().multiply_adds());
}

TEST(LayerListTest, tells_groups_biases_and_what_has_no_parameters) {
  const std::vector<Layer> layers = layers_of("alexnet_caffe");
  const Layer& grouped = named(layers, "conv2");
  EXPECT_EQ(grouped.text(), "conv 5x5 in 2 96->256 27x27 + relu");
  EXPECT_EQ(grouped.weights(), 256 * 48 * 25);
  EXPECT_TRUE(grouped.form.bias);
  EXPECT_EQ(named(layers, "response_norm2").text(), "response norm 256 13x13");
  EXPECT_EQ(named(layers, "max_pool3").text(), "max pool 3x3/2 256 13x13");
  EXPECT_EQ(named(layers, "fc6").text(), "linear 9216->4096 + relu");
  EXPECT_FALSE(named(layers_of("resnet20"), "conv1").form.bias);
}

}  // namespace
}  // namespace lockstep::models
