#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/equal.h>

#include "lockstep/models/model.h"

namespace lockstep::models {
namespace {

const at::Tensor& find(const Model& model, const std::string& name) {
  for (const auto& parameter : model.parameters().trainable()) {
    if (parameter.name == name) return parameter.value;
  }
  throw std::runtime_error("no parameter " + name);
}

double deviation(const at::Tensor& values) {
  return values.std().item<double>();
}

// Sample deviations of n values are within 5 / sqrt(2 n) of the distribution's, but for one case in a
// million.
void expect_deviation(const at::Tensor& values, double expected) {
  EXPECT_NEAR(deviation(values), expected,
              expected * 5 / std::sqrt(2.0 * static_cast<double>(values.numel())));
}

TEST(InitialValuesTest, are_torchvisions_distributions) {
  const auto model = registry().get("resnext50_32x4d").create({});
  // Normal, standard deviation sqrt(2 / fan out), fan out = kernel^2 * output channels also when grouped.
  expect_deviation(find(*model, "conv1.weight"), std::sqrt(2.0 / (49 * 64)));
  expect_deviation(find(*model, "layer1.0.conv2.weight"), std::sqrt(2.0 / (9 * 128)));
  expect_deviation(find(*model, "layer4.0.downsample.0.weight"), std::sqrt(2.0 / 2048));
  // Uniform in +-1/sqrt(2048), so the deviation is that over sqrt(3).
  const double bound = 1 / std::sqrt(2048.0);
  expect_deviation(find(*model, "fc.weight"), bound / std::sqrt(3.0));
  EXPECT_LE(find(*model, "fc.weight").abs().max().item<double>(), bound);
  EXPECT_LE(find(*model, "fc.bias").abs().max().item<double>(), bound);
  EXPECT_GT(find(*model, "fc.bias").abs().max().item<double>(), 0.9 * bound);
  for (const auto& [name, value] : model->parameters().trainable()) {
    if (name.find("bn") == std::string::npos) continue;
    EXPECT_TRUE(value.eq(name.ends_with(".weight") ? 1 : 0).all().item<bool>()) << name;
  }
}

TEST(InitialValuesTest, depend_on_the_seed_and_not_on_the_memory_format) {
  const ModelInfo& info = registry().get("resnet18");
  const auto channels_last = info.create({.seed = 7})->parameters();
  const auto contiguous =
      info.create({.seed = 7, .memory_format = at::MemoryFormat::Contiguous})->parameters();
  const auto other = info.create({.seed = 8})->parameters();
  for (size_t i = 0; i < channels_last.trainable().size(); ++i) {
    const auto& [name, value] = channels_last.trainable()[i];
    EXPECT_TRUE(at::equal(value, contiguous.trainable()[i].value)) << name;
    const bool constant = value.dim() == 1 && !name.starts_with("fc");
    EXPECT_EQ(at::equal(value, other.trainable()[i].value), constant) << name;
  }
}

}  // namespace
}  // namespace lockstep::models
