#include "lockstep/kernels/conv_bn.h"

#include "lockstep/kernels/relu.h"

namespace lockstep::kernels {
namespace {

LayerInit first_values(const ConvShape& shape, const ConvBnStyle& style) {
  if (style.weight_deviation) return {replica::Init::normal(*style.weight_deviation), std::nullopt};
  return kaiming_normal_fan_out(shape.out_channels, shape.kernel.height * shape.kernel.width);
}

}  // namespace

ConvBn::ConvBn(replica::Parameters& parameters, const ConvBnNames& names, const ConvShape& shape,
               const ConvBnStyle& style)
    : conv_(parameters, names.conv, shape, first_values(shape, style)),
      bn_(parameters, names.bn, shape.out_channels, style.epsilon) {}

at::Tensor ConvBn::operator()(const at::Tensor& x, const Context& context) const {
  return bn_(conv_(x, context), context);
}

ConvBnRelu::ConvBnRelu(replica::Parameters& parameters, const ConvBnNames& names, const ConvShape& shape,
                       const ConvBnStyle& style)
    : conv_bn_(parameters, names, shape, style) {}

at::Tensor ConvBnRelu::operator()(const at::Tensor& x, const Context& context) const {
  // Here and below: the normalisation's backward pass needs its input, not its output.
  return relu_in_place(conv_bn_(x, context), context);
}

ConvBnAddRelu::ConvBnAddRelu(replica::Parameters& parameters, const ConvBnNames& names,
                             const ConvShape& shape)
    : conv_bn_(parameters, names, shape) {}

at::Tensor ConvBnAddRelu::operator()(const at::Tensor& x, const std::function<at::Tensor()>& residual,
                                     const Context& context) const {
  at::Tensor y = conv_bn_(x, context);
  y.add_(residual());
  return relu_in_place(y, context);
}

}  // namespace lockstep::kernels
