#include "cuda_kernels/norm_run.h"

#include <ostream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>

#include "cuda_kernels/host_kernels.h"

namespace lockstep::cuda_kernels {
namespace {

constexpr uint8_t kMaskGuard = 0x5a;
constexpr float kUnwritten = 1e30f;
/// Channels of one tile.
constexpr int64_t kGuardValues = int64_t{kMostColumns} * kGroup;

float* floats(const at::Tensor& tensor) {
  return tensor.mutable_data_ptr<float>();
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const NormCase& own) {
  return out << fmt::format("{}x{}x{}x{} of {}, image {} shifted by {}, mean {}{}{}{}", own.batch, own.height,
                            own.width, own.channels, c10::toString(scalar_type(own.number)), own.shifted,
                            own.shift, own.mean, own.residual ? ", residual" : "", own.relu ? ", ReLU" : "",
                            own.forks ? ", forked" : "");
}

NormRun::NormRun(const NormCase& own)
    : own_(own),
      x_(own.number, own.rows() * own.channels, own.shift_of(0)),
      residual_(own.number, own.rows() * own.channels, own.shift_of(1)),
      dy_(own.number, own.rows() * own.channels, own.shift_of(2)),
      more_(own.number, own.rows() * own.channels, own.shift_of(3)),
      y_(own.number, own.rows() * own.channels, own.shift_of(4)),
      dz_(own.number, own.rows() * own.channels, own.shift_of(5)),
      dx_(own.number, own.rows() * own.channels, own.shift_of(6)),
      mask_(static_cast<size_t>(own.rows() * groups_of(static_cast<int>(own.channels)) + 1), kMaskGuard) {
  const at::Generator generator = at::detail::createCPUGenerator(own.seed);
  const auto normal = [&](int64_t count) { return at::randn({count}, generator); };
  for (GuardedValues* values : {&x_, &residual_, &dy_, &more_}) {
    values->tensor().copy_(normal(own.rows() * own.channels));
  }
  x_.tensor().add_(own.mean);
  weight = normal(own.channels) * 0.5 + 1;
  bias = normal(own.channels);
  written_ = at::full({6, own.channels + kGuardValues}, kUnwritten);
  int64_t row = 0;
  for (at::Tensor* values : {&mean, &inverse, &of_weight, &of_bias, &running_mean, &running_variance}) {
    *values = written_[row++].narrow(0, 0, own.channels);
  }
  running_mean.copy_(normal(own.channels));
  running_variance.copy_(at::rand({own.channels}, generator) + 0.5);
  first_running_mean_ = running_mean.clone();
  first_running_variance_ = running_variance.clone();
}

NormForward NormRun::forward(void* workspace) {
  return {.shape = shape(),
          .number = own_.number,
          .x = x_.data(),
          .residual = own_.residual ? residual_.data() : nullptr,
          .weight = floats(weight),
          .bias = floats(bias),
          .epsilon = kEpsilon,
          .momentum = kMomentum,
          .y = y_.data(),
          .mask = own_.relu ? mask_.data() : nullptr,
          .mean = floats(mean),
          .inverse_deviation = floats(inverse),
          .running_mean = floats(running_mean),
          .running_variance = floats(running_variance),
          .workspace = workspace};
}

NormBackward NormRun::backward(void* workspace) {
  return {.shape = shape(),
          .number = own_.number,
          .dy = dy_.data(),
          .more = own_.forks ? more_.data() : nullptr,
          .mask = own_.relu ? mask_.data() : nullptr,
          .x = x_.data(),
          .weight = floats(weight),
          .mean = floats(mean),
          .inverse_deviation = floats(inverse),
          .of_weight = floats(of_weight),
          .of_bias = floats(of_bias),
          .dz = own_.forks || own_.residual ? dz_.data() : nullptr,
          .dx = dx_.data(),
          .workspace = workspace};
}

void NormRun::run() {
  run(workspace_);
}

void NormRun::run(std::vector<char>& workspace) {
  const auto bytes = static_cast<size_t>(host_kernels().norm_workspace_bytes(shape()));
  // Zero once, as its contract says; the kernels share it.
  if (workspace.size() < bytes) workspace.assign(bytes, 0);
  host_kernels().normalize(forward(workspace.data()), nullptr);
  host_kernels().normalize_backward(backward(workspace.data()), nullptr);
}

std::vector<at::Tensor> NormRun::made() {
  std::vector<at::Tensor> all{y().clone(),     dx().clone(),         dz_.tensor().clone(),
                              mean.clone(),    inverse.clone(),      of_weight.clone(),
                              of_bias.clone(), running_mean.clone(), running_variance.clone()};
  if (own_.relu) all.push_back(passed());
  return all;
}

at::Tensor NormRun::passed() const {
  const at::Tensor passed = at::empty({own_.rows(), own_.channels}, at::kBool);
  const int64_t groups = groups_of(static_cast<int>(own_.channels));
  bool* const out = passed.mutable_data_ptr<bool>();
  for (int64_t row = 0; row < own_.rows(); ++row) {
    for (int64_t c = 0; c < own_.channels; ++c) {
      const uint8_t byte = mask_[static_cast<size_t>(row * groups + c / kGroup)];
      out[row * own_.channels + c] = (byte >> c % kGroup & 1) != 0;
    }
  }
  return passed;
}

at::Tensor NormRun::image(GuardedValues& values) const {
  return values.tensor()
      .to(at::kDouble)
      .view({own_.batch, own_.height, own_.width, own_.channels})
      .permute({0, 3, 1, 2})
      .contiguous();
}

at::Tensor NormRun::rows_of(const at::Tensor& image) const {
  return image.detach().permute({0, 2, 3, 1}).reshape({own_.rows(), own_.channels});
}

void NormRun::expect_guarded() const {
  for (const GuardedValues* values : {&x_, &residual_, &dy_, &more_, &y_, &dz_, &dx_}) {
    EXPECT_TRUE(values->is_guarded());
  }
  EXPECT_EQ(mask_.back(), kMaskGuard);
  EXPECT_TRUE(written_.narrow(1, own_.channels, kGuardValues).eq(kUnwritten).all().item<bool>());
}

void NormRun::expect_forward_like(const at::Tensor& normalized) {
  expect_rounded(y(), rows_of(own_.relu ? at::relu(normalized) : normalized), own_.number, "y");
  if (own_.relu) {
    EXPECT_TRUE(passed().equal(y().gt(0))) << "mask";
  }
}

void NormRun::expect_backward_like(const at::Tensor& x, const at::Tensor& z, const at::Tensor& weight_used,
                                   const at::Tensor& bias_used) {
  at::Tensor gradient = dy_.tensor();
  // Rounded to the number format, as autograd adds two gradients.
  if (own_.forks) gradient = gradient + more_.tensor();
  gradient = gradient.view({own_.rows(), own_.channels});
  // The mask of y as it was rounded, which expect_forward_like() has looked at.
  if (own_.relu) gradient = gradient * passed().to(gradient.scalar_type());
  const at::Tensor dz = gradient.to(at::kDouble);
  z.backward(dz.view({own_.batch, own_.height, own_.width, own_.channels}).permute({0, 3, 1, 2}));
  expect_rounded(dx(), rows_of(x.grad()), own_.number, "dx");
  expect_fp32(of_weight, weight_used.grad(), "gradient of the weight");
  expect_fp32(of_bias, bias_used.grad(), "gradient of the bias");
  if (own_.forks || own_.residual) {
    EXPECT_TRUE(dz_.tensor().to(at::kDouble).equal(dz.flatten())) << "gradient of the residual";
  }
}

void NormRun::expect_like_torch() {
  const at::Tensor x = image(x_).set_requires_grad(true);
  const at::Tensor weight_used = weight.to(at::kDouble).set_requires_grad(true);
  const at::Tensor bias_used = bias.to(at::kDouble).set_requires_grad(true);
  at::Tensor torch_mean = first_running_mean_.to(at::kDouble);
  at::Tensor torch_variance = first_running_variance_.to(at::kDouble);
  at::Tensor z = at::batch_norm(x, weight_used, bias_used, torch_mean, torch_variance, /*training=*/true,
                                kMomentum, kEpsilon, /*cudnn_enabled=*/false);
  if (own_.residual) z = z + image(residual_);
  expect_guarded();
  expect_forward_like(z);
  expect_backward_like(x, z, weight_used, bias_used);
  expect_fp32(running_mean, torch_mean, "running mean");
  // LibTorch divides by 0 if there is one value.
  if (own_.rows() == 1) torch_variance = first_running_variance_.to(at::kDouble) * (1 - kMomentum);
  expect_fp32(running_variance, torch_variance, "running variance");
  const at::Tensor values = rows_of(x);
  expect_fp32(mean, values.mean(0), "mean");
  expect_fp32(inverse, (values.var(0, /*unbiased=*/false) + kEpsilon).rsqrt(), "inverse deviation");
}

}  // namespace lockstep::cuda_kernels
