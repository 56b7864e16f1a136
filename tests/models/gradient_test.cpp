#include <string>

#include <gtest/gtest.h>

#include <ATen/ops/tensor.h>

#include "lockstep/models/model.h"

#include "models/hashed_values.h"

namespace lockstep::models {
namespace {

constexpr int64_t kBatch = 2;

class GradientTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    int64_t stream = 0;
    for (const auto& [name, value] : model_->parameters().trainable()) {
      value.set_data(hashed_parameter(++stream, name, value.sizes()));
    }
  }

  at::Tensor loss() {
    const at::Tensor images = hashed(0, kBatch * info_.channels * info_.image_size * info_.image_size)
                                  .view({kBatch, info_.channels, info_.image_size, info_.image_size});
    return cross_entropy(model_->forward(images, {}), at::tensor({3, 7}, at::kLong));
  }

  /// Adds `step` times a fixed direction to parameter `i`.
  void move(size_t i, double step) {
    at::Tensor value = model_->parameters().trainable()[i].value.detach();
    value.add_(hashed(static_cast<int64_t>(1000 + i), value.numel()).view(value.sizes()), step);
  }

  const ModelInfo& info_ = registry().get(GetParam());
  const std::unique_ptr<Model> model_ = info_.create({});
};

/// The networks that torchvision does not have: each gradient against the loss's change along a fixed
/// direction, in fp64. A central difference over 2e-6 is off by some 1e-12 (its square) plus 1e-16 / 1e-6 of
/// rounding.
TEST_P(GradientTest, is_the_slope_of_the_loss) {
  loss().backward();
  constexpr double kStep = 1e-6;
  const auto& trainable = model_->parameters().trainable();
  for (size_t i = 0; i < trainable.size(); ++i) {
    const at::Tensor gradient = trainable[i].value.grad().flatten();
    const double expected =
        gradient.dot(hashed(static_cast<int64_t>(1000 + i), gradient.numel())).item<double>();
    move(i, kStep);
    const double above = loss().item<double>();
    move(i, -2 * kStep);
    const double below = loss().item<double>();
    move(i, kStep);
    EXPECT_NE(expected, 0) << trainable[i].name;
    EXPECT_NEAR((above - below) / (2 * kStep), expected, 1e-7) << trainable[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GradientTest, testing::Values("lenet5", "mlp", "trivial"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace lockstep::models
