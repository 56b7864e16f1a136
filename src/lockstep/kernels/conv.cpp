#include "lockstep/kernels/conv.h"

#include <ATen/ops/conv2d.h>

#include "lockstep/kernels/block_steps.h"
#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/onednn/fused_layers.h"

namespace lockstep::kernels {

Conv2d::Conv2d(replica::Parameters& parameters, const std::string& name, const ConvShape& shape,
               const LayerInit& init, bool relu)
    : shape_(shape),
      relu_(relu),
      weight_(parameters.add(
          name + ".weight",
          {shape.out_channels, shape.in_channels / shape.groups, shape.kernel.height, shape.kernel.width},
          init.weight)),
      weight_gradient_(parameters.gradient_place(name + ".weight")),
      weight_copy_(parameters.narrow_copy(name + ".weight")),
      narrow_gradient_(parameters.narrow_gradient_sink(name + ".weight")),
      fused_(std::make_shared<onednn::FusedConv>(shape, relu)) {
  if (init.bias) bias_ = parameters.add(name + ".bias", {shape.out_channels}, *init.bias);
}

at::Tensor Conv2d::operator()(const at::Tensor& given, const Context& context) const {
  if (context.fuses(given)) {
    const at::Tensor y = (*fused_)(given, weight_, bias_, *weight_gradient_);
    if (y.defined()) return y;
  }
  const at::Tensor x = to_plain(given);
  at::Tensor y = at::conv2d(x, narrow_weight(weight_, *weight_copy_, *narrow_gradient_, context), bias_,
                            shape_.stride, {shape_.padding.height, shape_.padding.width},
                            /*dilation=*/1, shape_.groups);
  if (context.cost != nullptr) {
    context.cost->multiply_add(y.numel() * shape_.fan_in());
    context.cost->keep(x);
  }
  // In place, because the backward pass of a convolution does not need its output.
  return relu_ ? relu_in_place(y, context) : y;
}

}  // namespace lockstep::kernels
