#include "lockstep/kernels/conv.h"

#include <ATen/ops/conv2d.h>

#include "lockstep/kernels/relu.h"

namespace lockstep::kernels {

Conv2d::Conv2d(replica::Parameters& parameters, const std::string& name, const ConvShape& shape,
               const LayerInit& init)
    : shape_(shape),
      weight_(parameters.add(
          name + ".weight",
          {shape.out_channels, shape.in_channels / shape.groups, shape.kernel.height, shape.kernel.width},
          init.weight)) {
  if (init.bias) bias_ = parameters.add(name + ".bias", {shape.out_channels}, *init.bias);
}

at::Tensor Conv2d::operator()(const at::Tensor& x, const Context& context) const {
  at::Tensor y = at::conv2d(x, weight_, bias_, shape_.stride, {shape_.padding.height, shape_.padding.width},
                            /*dilation=*/1, shape_.groups);
  if (context.cost != nullptr) {
    context.cost->multiply_add(y.numel() * shape_.fan_in());
    context.cost->keep(x);
  }
  return y;
}

ConvRelu::ConvRelu(replica::Parameters& parameters, const std::string& name, const ConvShape& shape,
                   const LayerInit& init)
    : conv_(parameters, name, shape, init) {}

at::Tensor ConvRelu::operator()(const at::Tensor& x, const Context& context) const {
  // A convolution's backward pass does not need its output.
  return relu_in_place(conv_(x, context), context);
}

}  // namespace lockstep::kernels
