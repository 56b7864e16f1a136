#include <optional>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/norm_loops.h"
#include "lockstep/kernels/winograd.h"
#include "lockstep/replica/releasable_memory.h"

namespace lockstep::kernels {
namespace {

using replica::GradientPlace;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

WinogradShape shape_of(const ConvShape& conv, const at::Tensor& x) {
  return winograd_shape(conv, x.size(0), x.size(2), x.size(3));
}

/// Returns the gradient, masked by y > 0 if `y` is defined. If `of_bias` ([channels], fp32) is defined, it
/// gets the sums over all pixels. Both in one pass, by the loops of batch normalization with a mean of 0.
at::Tensor through_relu(const at::Tensor& gradient, const at::Tensor& y, const at::Tensor& of_bias) {
  if (!y.defined() && !of_bias.defined()) return gradient;
  const at::Tensor masked = y.defined() ? at::empty_like(gradient) : gradient;
  const int64_t blocks = gradient.size(1);
  const int64_t width = gradient.size(4);
  const Pixels pixels{gradient.size(2) * gradient.size(3), width};
  const std::vector<float> zeros(static_cast<size_t>(width), 0.0F);
  std::vector<ChannelSums> sums(static_cast<size_t>(gradient.size(0) * blocks));
  const auto* const in = gradient.const_data_ptr<float>();
  const auto* const outputs = y.defined() ? y.const_data_ptr<float>() : nullptr;
  auto* const out = y.defined() ? masked.mutable_data_ptr<float>() : nullptr;
  const NormLoops<float>& loops = norm_loops<float>();
  at::parallel_for(0, gradient.size(0) * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t at = plane * pixels.count * width;
      ChannelSums& of_plane = sums[static_cast<size_t>(plane)];
      if (outputs == nullptr) {
        loops.add_moments(in + at, pixels, zeros.data(), of_plane);
      } else {
        loops.add_gradient_sums(in + at, nullptr, {.y = outputs + at}, outputs + at, pixels, zeros.data(),
                                out + at, of_plane);
      }
    }
  });
  if (of_bias.defined()) {
    auto* const bias = of_bias.mutable_data_ptr<float>();
    for (int64_t c = 0; c < blocks * width; ++c) {
      double sum = 0;
      for (int64_t image = 0; image < gradient.size(0); ++image)
        sum += sums[static_cast<size_t>(image * blocks + c / width)].first[c % width];
      bias[c] = static_cast<float>(sum);
    }
  }
  return masked;
}

class WinogradFunction : public torch::autograd::Function<WinogradFunction> {
 public:
  static at::Tensor forward(AutogradContext* saved, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const ConvShape* conv, bool relu,
                            const GradientPlace* place) {
    replica::uses(weight, bias.value_or(at::Tensor()));
    const WinogradShape shape = shape_of(*conv, x);
    const at::Tensor y = at::empty(
        {shape.batch, shape.out_channels / x.size(4), shape.out_height(), shape.out_width(), x.size(4)},
        x.options());
    winograd_forward(shape, x.const_data_ptr<float>(), weight.const_data_ptr<float>(),
                     bias ? bias->const_data_ptr<float>() : nullptr, relu, y.mutable_data_ptr<float>());
    saved->save_for_backward({x, weight, relu ? y : at::Tensor()});
    saved->saved_data["conv"] = reinterpret_cast<int64_t>(conv);
    saved->saved_data["place"] = reinterpret_cast<int64_t>(place);
    saved->saved_data["bias"] = bias.has_value();
    return y;
  }

  static variable_list backward(AutogradContext* saved, const variable_list& gradients) {
    const variable_list variables = saved->get_saved_variables();
    const at::Tensor& x = variables[0];
    const at::Tensor& weight = variables[1];
    const auto& conv = *reinterpret_cast<const ConvShape*>(saved->saved_data["conv"].toInt());
    const auto& wanted = *reinterpret_cast<const GradientPlace*>(saved->saved_data["place"].toInt());
    replica::uses(weight, wanted.tensor);
    const WinogradShape shape = shape_of(conv, x);
    at::Tensor of_bias;
    if (saved->saved_data["bias"].toBool()) of_bias = at::empty({shape.out_channels}, at::kFloat);
    const at::Tensor gradient = through_relu(gradients[0].contiguous(), variables[2], of_bias);
    at::Tensor of_x;
    if (saved->needs_input_grad(0)) {
      of_x = at::empty_like(x);
      winograd_backward_data(shape, gradient.const_data_ptr<float>(), weight.const_data_ptr<float>(),
                             of_x.mutable_data_ptr<float>());
    }
    const GradientPlace place = wanted.or_new(weight);
    winograd_backward_weights(shape, x.const_data_ptr<float>(), gradient.const_data_ptr<float>(),
                              static_cast<float>(place.scale), place.add,
                              place.tensor.mutable_data_ptr<float>());
    return {of_x, place.tensor, of_bias, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

bool can_winograd(const ConvShape& conv, const at::Tensor& x, const at::Tensor& weight) {
  return channels_of(x) == conv.in_channels && x.size(4) == channels_per_block() &&
         x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat &&
         weight.is_contiguous(at::MemoryFormat::ChannelsLast) && suits_winograd(conv, shape_of(conv, x));
}

at::Tensor winograd_conv(const ConvShape& conv, bool relu, const at::Tensor& x, const at::Tensor& weight,
                         const at::Tensor& bias, const GradientPlace& place) {
  return WinogradFunction::apply(x, weight, bias.defined() ? std::optional(bias) : std::nullopt, &conv, relu,
                                 &place);
}

}  // namespace lockstep::kernels
