#include "lockstep/kernels/block_steps.h"

#include <ATen/ops/relu.h>
#include <torch/csrc/autograd/custom_function.h>

namespace lockstep::kernels {
namespace {

class Narrowed : public torch::autograd::Function<Narrowed> {
 public:
  /// `sink` belongs to the block, which outlives its backward passes.
  static at::Tensor forward(torch::autograd::AutogradContext* saved, const at::Tensor& /*weight*/,
                            const at::Tensor& copy, const replica::NarrowGradientSink* sink) {
    saved->saved_data["sink"] = reinterpret_cast<int64_t>(sink);
    // A tensor of its own, because the autograd history of this pass is attached to it. `copy` outlives the
    // pass.
    return copy.detach();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* saved,
                                                 const torch::autograd::variable_list& gradients) {
    const auto* const sink =
        reinterpret_cast<const replica::NarrowGradientSink*>(saved->saved_data["sink"].toInt());
    if (*sink) {
      (*sink)(gradients[0]);
      return {at::Tensor(), at::Tensor(), at::Tensor()};
    }
    return {gradients[0].to(at::kFloat), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor relu_in_place(at::Tensor x, const Context& context) {
  at::relu_(x);
  if (context.cost != nullptr) context.cost->keep(x);
  return x;
}

at::Tensor narrow_weight(const at::Tensor& weight, const at::Tensor& copy,
                         const replica::NarrowGradientSink& sink, const Context& context) {
  return context.weight_copies && copy.defined() ? Narrowed::apply(weight, copy, &sink) : weight;
}

}  // namespace lockstep::kernels
