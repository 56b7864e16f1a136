#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <ATen/ops/tensor.h>

#include "lockstep/base/file.h"
#include "lockstep/kernels/conv_bn.h"
#include "lockstep/models/model.h"

#include "models/hashed_values.h"

namespace lockstep::models {
namespace {

using nlohmann::json;
using replica::NamedTensor;

constexpr int64_t kStepBatch = 2;
/// Values that enter the checksum; a larger tensor contributes its first ones.
constexpr int64_t kChecksumValues = int64_t{1} << 22;

/// In fp64 the networks must agree up to the order of summation: torchvision's fp32 step is up to 6e-5 from
/// its fp64 step, and fp64 rounds 2^29 times finer, which makes 1e-13; 1e-10 leaves room for other machines.
constexpr double kFp64Tolerance = 1e-10;
/// In fp32, other processors and thread counts sum in another order than the machine that wrote the
/// references: some multiple of what torchvision's own fp32 step is away.
constexpr double kFp32Distances = 8;
/// A ReLU whose input is within rounding of 0 may fall on either side in fp32. In the last stage a channel
/// holds 8 values, so one of these moves most gradients by a few percent (torchvision's own: 2 %). The fp64
/// step is the sharp test; this one notices a wrong fp32 kernel.
constexpr double kFp32GradientTolerance = 0.1;

/// As in make_references.py: what the network is made for, else 64.
int64_t image_size(const ModelInfo& info) {
  return std::clamp<int64_t>(64, info.min_image_size, info.max_image_size);
}

/// One training step with the reference's weights, images and labels, without dropout.
class TorchvisionStepTest : public testing::TestWithParam<std::string> {
 protected:
  void run(at::ScalarType dtype, at::MemoryFormat memory_format,
           kernels::KernelChoice kernels = kernels::KernelChoice::kAten) {
    reference_ = json::parse(read_file(LOCKSTEP_REFERENCES "/steps/" + GetParam() + ".json"));
    const ModelInfo& info = registry().get(GetParam());
    model_ = info.create({.memory_format = memory_format});
    int64_t stream = 0;
    for (const NamedTensor& parameter : model_->parameters().trainable()) {
      const at::Tensor values = hashed_parameter(++stream, parameter.name, parameter.value.sizes());
      parameter.value.set_data(values.to(dtype).contiguous(memory_format_of(parameter.value, memory_format)));
    }
    for (const NamedTensor& buffer : model_->parameters().buffers()) {
      if (buffer.value.is_floating_point()) buffer.value.set_data(buffer.value.to(dtype));
    }
    const int64_t size = image_size(info);
    const at::Tensor images =
        hashed(0, kStepBatch * 3 * size * size).mul(2).view({kStepBatch, 3, size, size});
    const Output output =
        model_->forward(images.to(dtype).contiguous(memory_format), {.kernels = kernels, .dropout = false});
    kernels::count_batch(model_->parameters());
    logits_ = output.logits;
    loss_ = cross_entropy(output, at::tensor({int64_t{3}, 10 % info.classes}, at::kLong));
    loss_.backward();
  }

  void expect_logits_and_statistics(double logits_tolerance, double statistics_tolerance) {
    expect_summary("logits", 0, logits_, reference_["logits"], logits_tolerance);
    // Cross entropy changes by at most sqrt(2) times what the logits do.
    const double logits_norm = reference_["logits"]["norm"];
    // Auxiliary logits count less than once and are of the same size.
    EXPECT_NEAR(loss_.item<double>(), reference_["loss"].get<double>(), 3 * logits_tolerance * logits_norm);

    size_t statistics = 0;
    for (const NamedTensor& buffer : model_->parameters().buffers()) {
      if (!buffer.value.is_floating_point()) {
        EXPECT_EQ(buffer.value.item<int64_t>(), 1) << buffer.name;
        continue;
      }
      ++statistics;
      expect_summary(buffer.name, static_cast<int64_t>(statistics), buffer.value,
                     reference_["statistics"].at(buffer.name), statistics_tolerance);
    }
    EXPECT_EQ(statistics, reference_["statistics"].size());
  }

  void expect_gradients(double tolerance) {
    int64_t stream = 0;
    for (const NamedTensor& parameter : model_->parameters().trainable()) {
      ASSERT_TRUE(parameter.value.grad().defined()) << parameter.name;
      expect_summary(parameter.name, ++stream, parameter.value.grad(),
                     reference_["gradients"].at(parameter.name), tolerance);
    }
    EXPECT_EQ(stream, static_cast<int64_t>(reference_["gradients"].size()));
  }

  double fp32_distance(const char* of) const { return reference_["fp32_distance"][of]; }

 private:
  static at::MemoryFormat memory_format_of(const at::Tensor& tensor, at::MemoryFormat memory_format) {
    return tensor.dim() == 4 ? memory_format : at::MemoryFormat::Contiguous;
  }

  /// Each number of a summary differs by at most the distance of the two tensors.
  static void expect_summary(const std::string& name, int64_t stream, const at::Tensor& tensor,
                             const json& expected, double tolerance) {
    SCOPED_TRACE(name);
    const at::Tensor values = tensor.detach().to(at::kDouble).contiguous().flatten();
    const at::Tensor checked = values.narrow(0, 0, std::min(values.numel(), kChecksumValues));
    const at::Tensor direction = hashed(1000 + stream, checked.numel());
    const double norm = expected["norm"];
    const double distance = tolerance * norm;
    EXPECT_NEAR(values.norm().item<double>(), norm, distance);
    EXPECT_NEAR(checked.dot(direction.div(direction.norm())).item<double>(),
                expected["checksum"].get<double>(), distance);
    const auto* leading = values.const_data_ptr<double>();
    for (const json& value : expected["leading"]) EXPECT_NEAR(*leading++, value.get<double>(), distance);
  }

  json reference_;
  std::unique_ptr<Model> model_;
  at::Tensor logits_;
  at::Tensor loss_;
};

TEST_P(TorchvisionStepTest, equals_torchvisions_in_fp64) {
  run(at::kDouble, at::MemoryFormat::ChannelsLast);
  expect_logits_and_statistics(kFp64Tolerance, kFp64Tolerance);
  expect_gradients(kFp64Tolerance);
}

class TorchvisionFp32StepTest : public TorchvisionStepTest {};

TEST_P(TorchvisionFp32StepTest, equals_torchvisions_in_fp32) {
  for (const auto memory_format : {at::MemoryFormat::ChannelsLast, at::MemoryFormat::Contiguous}) {
    SCOPED_TRACE(memory_format);
    run(at::kFloat, memory_format);
    expect_logits_and_statistics(kFp32Distances * fp32_distance("logits"),
                                 kFp32Distances * fp32_distance("statistics"));
    expect_gradients(kFp32GradientTolerance);
  }
}

/// Another order of summation is no larger a distance than another machine's.
TEST_P(TorchvisionFp32StepTest, equals_torchvisions_in_fp32_with_fused_kernels) {
  run(at::kFloat, at::MemoryFormat::ChannelsLast, kernels::KernelChoice::kFused);
  expect_logits_and_statistics(kFp32Distances * fp32_distance("logits"),
                               kFp32Distances * fp32_distance("statistics"));
  expect_gradients(kFp32GradientTolerance);
}

INSTANTIATE_TEST_SUITE_P(All, TorchvisionStepTest,
                         testing::Values("resnet18", "resnet50", "resnext50_32x4d", "alexnet",
                                         "alexnet_caffe", "vgg11", "googlenet_aux", "inception_v3_aux",
                                         "resnet20"),
                         [](const auto& test) { return test.param; });

/// The other networks add nothing to these that has a kernel of its own for fp32.
INSTANTIATE_TEST_SUITE_P(All, TorchvisionFp32StepTest,
                         testing::Values("resnet18", "resnet50", "resnext50_32x4d"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace lockstep::models
