#include "lockstep/kernels/linear.h"

#include <ATen/ops/linear.h>

#include "lockstep/kernels/relu.h"

namespace lockstep::kernels {

Linear::Linear(replica::Parameters& parameters, const std::string& name, int64_t in, int64_t out)
    : Linear(parameters, name, in, out, uniform_fan_in(in)) {}

Linear::Linear(replica::Parameters& parameters, const std::string& name, int64_t in, int64_t out,
               const LayerInit& init)
    : in_(in),
      weight_(parameters.add(name + ".weight", {out, in}, init.weight)),
      bias_(parameters.add(name + ".bias", out, *init.bias)) {}

at::Tensor Linear::operator()(const at::Tensor& x, const Context& context) const {
  at::Tensor y = at::linear(x, weight_, bias_);
  if (context.cost != nullptr) {
    context.cost->multiply_add(y.numel() * in_);
    context.cost->keep(x);
  }
  return y;
}

LinearRelu::LinearRelu(replica::Parameters& parameters, const std::string& name, int64_t in, int64_t out)
    : linear_(parameters, name, in, out) {}

LinearRelu::LinearRelu(replica::Parameters& parameters, const std::string& name, int64_t in, int64_t out,
                       const LayerInit& init)
    : linear_(parameters, name, in, out, init) {}

at::Tensor LinearRelu::operator()(const at::Tensor& x, const Context& context) const {
  // A linear layer's backward pass does not need its output.
  return relu_in_place(linear_(x, context), context);
}

}  // namespace lockstep::kernels
