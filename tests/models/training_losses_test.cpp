#include <cmath>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/models/model.h"
#include "lockstep/replica/sgd.h"

#include "models/hashed_values.h"

namespace lockstep::models {
namespace {

using kernels::KernelChoice;

constexpr int kSteps = 20;
constexpr int64_t kLossBatch = 4;
constexpr int64_t kImageSize = 64;
constexpr double kLearningRate = 1e-4;

/// The losses of a training on the same few images.
std::vector<double> losses(KernelChoice kernels, at::MemoryFormat memory_format) {
  const std::unique_ptr<Model> model = registry().get("resnet50").create({.memory_format = memory_format});
  const at::Tensor images = hashed(0, kLossBatch * 3 * kImageSize * kImageSize)
                                .mul(2)
                                .to(at::kFloat)
                                .view({kLossBatch, 3, kImageSize, kImageSize})
                                .contiguous(memory_format);
  const at::Tensor labels = at::arange(kLossBatch) * 7;
  replica::Sgd optimizer(model->parameters().tensors(), {.learning_rate = kLearningRate});
  std::vector<double> found;
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor loss =
        cross_entropy(model->forward(images, {.kernels = kernels, .dropout = false}), labels);
    loss.backward();
    found.push_back(loss.item<double>());
    optimizer.step();
    optimizer.clear_gradients();
  }
  return found;
}

double root_mean_square_distance(const std::vector<double>& one, const std::vector<double>& other) {
  double sum = 0;
  for (size_t step = 0; step < one.size(); ++step) sum += std::pow(one[step] - other[step], 2);
  return std::sqrt(sum / static_cast<double>(one.size()));
}

/// Trainings whose sums run in another order part within a few steps: a batch this small amplifies rounding.
/// The first loss is the same but for rounding; the distance over all steps is compared with the one between
/// two orders of LibTorch's own. A single step says nothing: there two trainings may meet by chance.
TEST(TrainingLossesTest, of_fused_kernels_are_as_far_from_atens_as_atens_from_each_other) {
  if (!kernels::why_no_fused_kernels().empty()) GTEST_SKIP() << kernels::why_no_fused_kernels();
  const std::vector<double> aten = losses(KernelChoice::kAten, at::MemoryFormat::ChannelsLast);
  const std::vector<double> other_aten = losses(KernelChoice::kAten, at::MemoryFormat::Contiguous);
  const std::vector<double> fused = losses(KernelChoice::kFused, at::MemoryFormat::ChannelsLast);
  EXPECT_NEAR(fused.front(), aten.front(), 1e-3);
  const double between_atens = root_mean_square_distance(aten, other_aten);
  EXPECT_LT(root_mean_square_distance(fused, aten), 2 * between_atens);
  EXPECT_LT(root_mean_square_distance(fused, other_aten), 2 * between_atens);
  EXPECT_LT(fused.back(), 0.5 * fused.front());
}

}  // namespace
}  // namespace lockstep::models
