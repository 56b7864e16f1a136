#include "lockstep/kernels/linear.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>

#include "lockstep/kernels/layer_init.h"

namespace lockstep::kernels {

Linear::Linear(replica::Parameters& parameters, const std::string& name, int64_t in, int64_t out)
    : in_(in),
      weight_(parameters.add(name + ".weight", {out, in}, uniform_fan_in(in).weight)),
      bias_(parameters.add(name + ".bias", out, *uniform_fan_in(in).bias)) {}

at::Tensor Linear::operator()(const at::Tensor& x, const Context& context) const {
  at::Tensor y = at::linear(x, weight_, bias_);
  if (context.cost != nullptr) {
    context.cost->multiply_adds += y.numel() * in_;
    context.cost->saved_values += y.numel();
  }
  return y;
}

LinearRelu::LinearRelu(replica::Parameters& parameters, const std::string& name, int64_t in, int64_t out)
    : linear_(parameters, name, in, out) {}

at::Tensor LinearRelu::operator()(const at::Tensor& x, const Context& context) const {
  at::Tensor y = linear_(x, context);
  // In place: a linear layer's backward pass does not need its output.
  return at::relu_(y);
}

}  // namespace lockstep::kernels
