#include "lockstep/limit/limit.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/kernels/onednn/instruction_set.h"

namespace lockstep::limit {
namespace {

using testing::ElementsAre;

Limit limit_of(const std::string& model, int64_t image_size, int64_t batch, LimitOptions options = {}) {
  options.runs = 1;
  return measure_limit(models::list_layers(models::registry().get(model), image_size, batch), options);
}

/// "conv forward" and the like.
std::vector<std::string> parts_of(const LayerLimit& layer) {
  std::vector<std::string> names;
  for (const PartLimit& part : layer.parts) {
    names.push_back(std::string(to_string(part.work)) + " " + std::string(to_string(part.direction)));
  }
  return names;
}

const PartLimit& part_of(const LayerLimit& layer, Work work, Direction direction) {
  return *std::ranges::find_if(
      layer.parts, [&](const PartLimit& part) { return part.work == work && part.direction == direction; });
}

class LimitTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(why_no_limit(), ""); }
};

TEST_F(LimitTest, has_every_direction_of_every_layer_of_a_residual_network) {
  const Limit limit = limit_of("resnet20", 32, 2);
  EXPECT_THAT(parts_of(*limit.find("conv1")),
              ElementsAre("conv forward", "conv backward weights", "norm forward", "norm backward"));
  EXPECT_THAT(parts_of(*limit.find("layer1.0.conv2")),
              ElementsAre("conv forward", "conv backward data", "conv backward weights", "norm forward",
                          "norm backward"));
  EXPECT_THAT(parts_of(*limit.find("avg_pool1")), ElementsAre("pool forward", "pool backward"));
  EXPECT_THAT(parts_of(*limit.find("fc")),
              ElementsAre("linear forward", "linear backward data", "linear backward weights"));
  EXPECT_EQ(limit.find("layer9"), nullptr);
  for (const LayerLimit& layer : limit.layers) {
    for (const PartLimit& part : layer.parts) {
      EXPECT_GT(part.time_s, 0) << layer.names.front();
      EXPECT_LT(part.time_s, 1) << layer.names.front();
      EXPECT_FALSE(part.layout.empty());
      EXPECT_FALSE(part.implementation.empty());
    }
  }
}

TEST_F(LimitTest, measures_layers_that_are_alike_once_and_counts_all_of_them) {
  const Limit limit = limit_of("resnet20", 32, 2);
  const LayerLimit& shared = *limit.find("layer1.1.conv1");
  EXPECT_THAT(shared.names, ElementsAre("layer1.0.conv1", "layer1.1.conv1", "layer1.2.conv1"));
  // The same convolution with another ending is another layer.
  EXPECT_THAT(limit.find("layer1.1.conv2")->names,
              ElementsAre("layer1.0.conv2", "layer1.1.conv2", "layer1.2.conv2"));
  size_t layers = 0;
  double sum_s = 0;
  for (const LayerLimit& layer : limit.layers) {
    layers += layer.count();
    sum_s += static_cast<double>(layer.count()) * (layer.forward_s() + layer.backward_s());
  }
  EXPECT_EQ(layers, 21);
  EXPECT_DOUBLE_EQ(limit.step_s(), sum_s);
  EXPECT_NEAR(limit.total_s(Work::kConvolution) + limit.total_s(Work::kNorm) + limit.total_s(Work::kPool) +
                  limit.total_s(Work::kLinear),
              sum_s, 1e-9);
  EXPECT_DOUBLE_EQ(limit.images_per_s(), 2 / sum_s);
}

TEST_F(LimitTest, counts_operations_and_bytes) {
  const Limit limit = limit_of("mlp", 32, 4);
  const LayerLimit& first = *limit.find("fc1");
  EXPECT_THAT(parts_of(first), ElementsAre("linear forward", "linear backward weights", "relu backward"));
  const PartLimit& forward = part_of(first, Work::kLinear, Direction::kForward);
  EXPECT_EQ(forward.multiply_adds, 4 * 3072 * 512);
  const int64_t least = 4 * (4 * 3072 + 3072 * 512 + 512 + 4 * 512);
  EXPECT_GE(forward.bytes, least);
  EXPECT_LT(static_cast<double>(forward.bytes), 1.1 * static_cast<double>(least));
  EXPECT_DOUBLE_EQ(forward.gflop_per_s(), 2e-9 * 4 * 3072 * 512 / forward.time_s);
  // The gradient of the hidden layer twice, and the layer.
  EXPECT_EQ(part_of(first, Work::kRelu, Direction::kBackward).bytes, 3 * 4 * 4 * 512);
}

TEST_F(LimitTest, takes_half_the_bytes_in_bf16) {
  const Limit fp32 = limit_of("mlp", 32, 4);
  const Limit bf16 = limit_of("mlp", 32, 4, {.bf16 = true});
  EXPECT_EQ(2 * part_of(*bf16.find("fc1"), Work::kRelu, Direction::kBackward).bytes,
            part_of(*fp32.find("fc1"), Work::kRelu, Direction::kBackward).bytes);
}

/// Groups, biases, response normalisation, windows over the edge, average pooling in several ways.
TEST_F(LimitTest, knows_what_the_other_networks_are_made_of) {
  for (const auto& [model, image_size] : std::vector<std::pair<std::string, int64_t>>{{"alexnet_caffe", 227},
                                                                                      {"googlenet_aux", 64},
                                                                                      {"resnext50_32x4d", 32},
                                                                                      {"inception_v3", 75},
                                                                                      {"lenet5", 28},
                                                                                      {"vgg11", 32}}) {
    const Limit limit = limit_of(model, image_size, 1);
    EXPECT_GT(limit.images_per_s(), 0) << model;
  }
}

TEST_F(LimitTest, counts_winograds_filtering_where_it_is_faster) {
  const bool is_taken = kernels::onednn::instruction_set() != kernels::onednn::InstructionSet::kAny;
  const auto some_part_is_filtered = [](const Limit& limit) {
    return std::ranges::any_of(limit.layers, [](const LayerLimit& layer) {
      return std::ranges::any_of(layer.parts,
                                 [](const PartLimit& part) { return part.implementation == "winograd"; });
    });
  };
  EXPECT_EQ(some_part_is_filtered(limit_of("vgg11", 32, 16)), is_taken);
  // Too few images for its rounding.
  EXPECT_FALSE(some_part_is_filtered(limit_of("vgg11", 32, 2)));
}

TEST_F(LimitTest, tells_how_far_it_is) {
  std::vector<size_t> told;
  size_t all = 0;
  const Limit limit = limit_of("trivial", 32, 1, {.progress = [&](size_t done, size_t of) {
                                 told.push_back(done);
                                 all = of;
                               }});
  EXPECT_EQ(all, limit.layers.size());
  EXPECT_THAT(told, ElementsAre(0, 1));
}

}  // namespace
}  // namespace lockstep::limit
