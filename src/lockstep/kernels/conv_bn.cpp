#include "lockstep/kernels/conv_bn.h"

#include <ATen/ops/relu.h>

namespace lockstep::kernels {
namespace {

void count_saved(const at::Tensor& y, const Context& context) {
  if (context.cost != nullptr) context.cost->saved_values += y.numel();
}

}  // namespace

ConvBn::ConvBn(replica::Parameters& parameters, const ConvBnNames& names, const ConvShape& shape)
    : conv_(parameters, names.conv, shape, kaiming_normal_fan_out(shape.out_channels, shape.kernel)),
      bn_(parameters, names.bn, shape.out_channels) {}

at::Tensor ConvBn::operator()(const at::Tensor& x, const Context& context) const {
  return bn_(conv_(x, context), context);
}

ConvBnRelu::ConvBnRelu(replica::Parameters& parameters, const ConvBnNames& names, const ConvShape& shape)
    : conv_bn_(parameters, names, shape) {}

at::Tensor ConvBnRelu::operator()(const at::Tensor& x, const Context& context) const {
  at::Tensor y = conv_bn_(x, context);
  count_saved(y, context);
  // In place, here and below: the normalisation's backward pass needs its input, not its output.
  return at::relu_(y);
}

ConvBnAddRelu::ConvBnAddRelu(replica::Parameters& parameters, const ConvBnNames& names,
                             const ConvShape& shape)
    : conv_bn_(parameters, names, shape) {}

at::Tensor ConvBnAddRelu::operator()(const at::Tensor& x, const std::function<at::Tensor()>& residual,
                                     const Context& context) const {
  at::Tensor y = conv_bn_(x, context);
  count_saved(y, context);
  y.add_(residual());
  return at::relu_(y);
}

}  // namespace lockstep::kernels
