#include "lockstep/kernels/narrow_weight.h"

#include <torch/csrc/autograd/custom_function.h>

namespace lockstep::kernels {
namespace {

class Narrowed : public torch::autograd::Function<Narrowed> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* /*saved*/, const at::Tensor& /*weight*/,
                            const at::Tensor& copy) {
    // A tensor of its own: this pass's history belongs to it, not to the copy.
    return copy.detach();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*saved*/,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0].to(at::kFloat), at::Tensor()};
  }
};

}  // namespace

at::Tensor narrow_weight(const at::Tensor& weight, const at::Tensor& copy, const Context& context) {
  return context.weight_copies && copy.defined() ? Narrowed::apply(weight, copy) : weight;
}

}  // namespace lockstep::kernels
