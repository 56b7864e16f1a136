#include "lockstep/kernels/conv.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/relu.h>

namespace lockstep::kernels {

Conv2d::Conv2d(replica::Parameters& parameters, const std::string& name, const ConvShape& shape,
               const LayerInit& init)
    : shape_(shape),
      weight_(parameters.add(
          name + ".weight",
          {shape.out_channels, shape.in_channels / shape.groups, shape.kernel, shape.kernel}, init.weight)) {
  if (init.bias) bias_ = parameters.add(name + ".bias", {shape.out_channels}, *init.bias);
}

at::Tensor Conv2d::operator()(const at::Tensor& x, const Context& context) const {
  at::Tensor y = at::conv2d(x, weight_, bias_, shape_.stride, shape_.padding, /*dilation=*/1, shape_.groups);
  if (context.cost != nullptr) {
    context.cost->multiply_adds +=
        y.numel() * shape_.in_channels / shape_.groups * shape_.kernel * shape_.kernel;
    context.cost->saved_values += y.numel();
  }
  return y;
}

ConvRelu::ConvRelu(replica::Parameters& parameters, const std::string& name, const ConvShape& shape,
                   const LayerInit& init)
    : conv_(parameters, name, shape, init) {}

at::Tensor ConvRelu::operator()(const at::Tensor& x, const Context& context) const {
  at::Tensor y = conv_(x, context);
  // In place: a convolution's backward pass does not need its output.
  return at::relu_(y);
}

}  // namespace lockstep::kernels
