#include <algorithm>
#include <tuple>

#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/kernels/fused_norm.h"

namespace lockstep::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A value per channel of an image, in fp32.
at::Tensor of_channels(const at::Tensor& values) {
  return values.to(at::kFloat).view({1, -1, 1, 1});
}

/// Sums of two images per channel over all ranks, in fp64.
at::Tensor sums_of(const at::Tensor& first, const at::Tensor& second, const NormRanks& ranks) {
  const auto sum = [](const at::Tensor& image) {
    return image.sum({0, 2, 3}, /*keepdim=*/false, at::kDouble);
  };
  at::Tensor sums = at::stack({sum(first), sum(second)});
  ranks.sum(sums);
  return sums;
}

/// The formulas are those of fused_norm.cpp.
class JointNorm : public torch::autograd::Function<JointNorm> {
 public:
  static at::Tensor forward(AutogradContext* saved, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const NormLayer& layer, const NormRanks* ranks) {
    const double count = static_cast<double>(x.numel() / x.size(1)) * ranks->count;
    const at::Tensor wide = x.to(at::kFloat);
    const at::Tensor moved = wide.sub(of_channels(layer.running_mean));
    const at::Tensor sums = sums_of(moved, moved.square(), *ranks).div(count);
    const at::Tensor variance = sums[1].sub(sums[0].square()).clamp_min(0);
    const at::Tensor mean = layer.running_mean.add(sums[0]);
    const at::Tensor inverse = variance.add(layer.epsilon).rsqrt();
    layer.running_mean.lerp_(mean.to(at::kFloat), layer.momentum);
    layer.running_variance.lerp_(variance.mul(count / std::max(1.0, count - 1)).to(at::kFloat),
                                 layer.momentum);
    saved->save_for_backward({x, weight, mean, inverse});
    saved->saved_data["ranks"] = reinterpret_cast<int64_t>(ranks);
    return wide.sub(of_channels(mean))
        .mul_(of_channels(inverse.mul(weight)))
        .add_(of_channels(bias))
        .to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* saved, const variable_list& gradients) {
    const variable_list variables = saved->get_saved_variables();
    const auto& [x, weight, mean, inverse] = std::tie(variables[0], variables[1], variables[2], variables[3]);
    const auto& ranks = *reinterpret_cast<const NormRanks*>(saved->saved_data["ranks"].toInt());
    const double count = static_cast<double>(x.numel() / x.size(1)) * ranks.count;
    const at::Tensor dy = gradients[0].to(at::kFloat);
    const at::Tensor moved = x.to(at::kFloat).sub_(of_channels(mean));
    const at::Tensor sums = sums_of(dy, dy.mul(moved), ranks);
    const at::Tensor slope = inverse.square().mul(sums[1]).div_(count);
    const at::Tensor dx = dy.sub(of_channels(sums[0].div(count)))
                              .sub_(moved.mul_(of_channels(slope)))
                              .mul_(of_channels(inverse.mul(weight)));
    return {dx.to(x.scalar_type()), sums[1].mul(inverse).div_(ranks.count).to(at::kFloat),
            sums[0].div(ranks.count).to(at::kFloat), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor joint_norm(const at::Tensor& x, const NormLayer& layer, const NormRanks& ranks) {
  return JointNorm::apply(x, layer.weight, layer.bias, layer, &ranks);
}

}  // namespace lockstep::kernels
