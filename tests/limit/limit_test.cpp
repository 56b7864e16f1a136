#include "limit.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/kernels/onednn/instruction_set.h"

namespace lockstep::limit {
namespace {

using testing::ElementsAre;

std::vector<Layer> layers_of(const std::string& model, int64_t batch) {
  const models::ModelInfo& info = models::registry().get(model);
  return list_layers(info, info.image_size, batch);
}

Limit limit_of(const std::string& model, int64_t image_size, int64_t batch, LimitOptions options = {}) {
  options.runs = 1;
  return measure_limit(list_layers(models::registry().get(model), image_size, batch), options);
}

const LayerLimit& group_of(const Limit& limit, const std::string& layer) {
  return *std::ranges::find_if(limit.layers, [&](const LayerLimit& group) {
    return std::ranges::find(group.names, layer) != group.names.end();
  });
}

/// "conv forward" and the like.
std::vector<std::string> parts_of(const LayerLimit& layer) {
  std::vector<std::string> names;
  for (const PartLimit& part : layer.parts)
    names.push_back(std::string(to_string(part.work)) + " " + std::string(to_string(part.direction)));
  return names;
}

/// A layer that the list leaves out would be missing in the sum.
TEST(LayersTest, cost_together_what_the_network_costs) {
  for (const char* model :
       {"resnet18", "resnext50_32x4d", "alexnet_caffe", "googlenet_aux", "resnet20", "mlp"}) {
    int64_t multiply_adds = 0;
    for (const Layer& layer : layers_of(model, 3)) multiply_adds += layer.multiply_adds();
    EXPECT_EQ(multiply_adds, 3 * models::registry().get(model).multiply_adds) << model;
  }
}

TEST(LayersTest, are_a_networks_blocks_in_the_order_in_which_they_begin) {
  const std::vector<Layer> layers = layers_of("resnet50", 16);
  EXPECT_EQ(layers.size(), 53 + 3);
  std::vector<std::string> names;
  for (size_t i = 0; i < 7; ++i) names.push_back(layers[i].name + ": " + layers[i].text());
  EXPECT_THAT(names, ElementsAre("conv1: conv 7x7/2 3->64 224x224 + norm + relu",
                                 "max_pool1: max pool 3x3/2 64 112x112",
                                 "layer1.0.conv1: conv 1x1 64 56x56 + norm + relu",
                                 "layer1.0.conv2: conv 3x3 64 56x56 + norm + relu",
                                 "layer1.0.conv3: conv 1x1 64->256 56x56 + norm + add + relu",
                                 "layer1.0.downsample.0: conv 1x1 64->256 56x56 + norm",
                                 "layer1.1.conv1: conv 1x1 256->64 56x56 + norm + relu"));
  EXPECT_EQ(layers.back().text(), "linear 2048->1000");
  EXPECT_EQ(layers[layers.size() - 2].text(), "avg pool 2048 7x7");
  EXPECT_FALSE(layers.front().input_learns);
  EXPECT_TRUE(layers[1].input_learns);
  EXPECT_THAT(layers.back().in, ElementsAre(16, 2048));
}

TEST(LayersTest, have_groups_biases_and_normalized_responses) {
  std::vector<std::string> texts;
  for (const Layer& layer : layers_of("alexnet_caffe", 1)) texts.push_back(layer.name + ": " + layer.text());
  EXPECT_THAT(texts, testing::IsSupersetOf({"conv2: conv 5x5 in 2 96->256 27x27 + relu",
                                            "response_norm2: response norm 256 13x13",
                                            "fc6: linear 9216->4096 + relu"}));
}

TEST(LimitTest, has_every_direction_of_every_layer_and_measures_those_that_are_alike_once) {
  const Limit limit = limit_of("resnet20", 32, 2);
  EXPECT_THAT(parts_of(group_of(limit, "conv1")),
              ElementsAre("conv forward", "conv backward weights", "norm forward", "norm backward"));
  EXPECT_THAT(parts_of(group_of(limit, "fc")),
              ElementsAre("linear forward", "linear backward data", "linear backward weights"));
  // The same convolution with another ending is another layer.
  EXPECT_THAT(group_of(limit, "layer1.1.conv1").names,
              ElementsAre("layer1.0.conv1", "layer1.1.conv1", "layer1.2.conv1"));
  double sum_s = 0;
  for (const LayerLimit& layer : limit.layers) {
    sum_s += static_cast<double>(layer.count()) * (layer.forward_s() + layer.backward_s());
    for (const PartLimit& part : layer.parts) EXPECT_GT(part.time_s, 0) << layer.names.front();
  }
  EXPECT_DOUBLE_EQ(limit.images_per_s(), 2 / sum_s);
}

/// Groups, biases, response normalization, windows over the edge, average pooling in several ways.
TEST(LimitTest, knows_what_the_other_networks_are_made_of) {
  for (const auto& [model, image_size] : std::vector<std::pair<std::string, int64_t>>{
           {"alexnet_caffe", 227}, {"googlenet_aux", 64}, {"resnext50_32x4d", 32}, {"inception_v3", 75}})
    EXPECT_GT(limit_of(model, image_size, 1).images_per_s(), 0) << model;
}

TEST(LimitTest, counts_winograds_filtering_where_it_is_faster) {
  const Limit limit = limit_of("vgg11", 32, 16);
  const bool is_filtered = std::ranges::any_of(limit.layers, [](const LayerLimit& layer) {
    return std::ranges::count(layer.parts, "winograd", &PartLimit::implementation) > 0;
  });
  EXPECT_EQ(is_filtered, kernels::onednn::instruction_set() != kernels::onednn::InstructionSet::kAny);
}

}  // namespace
}  // namespace lockstep::limit
