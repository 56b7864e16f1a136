#include "lockstep/kernels/conv_bn.h"

#include "lockstep/kernels/layer_watch.h"

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
      bn_(parameters, names.bn, shape.out_channels, style.epsilon),
      form_(layer_form(names.conv, shape, LayerEnding::kNorm)) {}

at::Tensor ConvBn::operator()(const at::Tensor& x, const Context& context) const {
  return as_layer(form_, x, context, [this](const at::Tensor& in, const Context& inner) {
    return (*this)(in, NormTail{}, inner).path;
  });
}

Fork ConvBn::operator()(const at::Tensor& x, const NormTail& tail, const Context& context) const {
  return bn_(conv_(x, context), tail, context);
}

ConvBnRelu::ConvBnRelu(replica::Parameters& parameters, const ConvBnNames& names, const ConvShape& shape,
                       const ConvBnStyle& style)
    : conv_bn_(parameters, names, shape, style),
      form_(layer_form(names.conv, shape, LayerEnding::kNormRelu)) {}

at::Tensor ConvBnRelu::operator()(const at::Tensor& x, const Context& context) const {
  return as_layer(form_, x, context, [this](const at::Tensor& in, const Context& inner) {
    return conv_bn_(in, {.residual = {}, .steps = {.relu = true}}, inner).path;
  });
}

ConvBnAddRelu::ConvBnAddRelu(replica::Parameters& parameters, const ConvBnNames& names,
                             const ConvShape& shape)
    : conv_bn_(parameters, names, shape), form_(layer_form(names.conv, shape, LayerEnding::kNormAddRelu)) {}

Fork ConvBnAddRelu::operator()(const at::Tensor& x, const std::function<at::Tensor()>& residual,
                               const Context& context) const {
  Fork made;
  const at::Tensor path = as_layer(form_, x, context, [&](const at::Tensor& in, const Context& inner) {
    const bool forks = context.layers == nullptr;
    made = conv_bn_(in, {.residual = residual, .steps = {.relu = true, .forks = forks}}, inner);
    return made.path;
  });
  // A watch is to see what comes back along both.
  return {path, context.layers == nullptr ? made.shortcut : path};
}

}  // namespace lockstep::kernels
