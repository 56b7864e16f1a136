#include "lockstep/kernels/linear.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/kernels/block_steps.h"
#include "lockstep/kernels/onednn/fused_layers.h"
#include "lockstep/replica/precision.h"

namespace lockstep::kernels {
namespace {

using replica::GradientPlace;

/// A linear layer that writes the gradient of its weight straight to its place. That gradient is most of the
/// gradient of a network with large linear layers, so a copy of it would cost.
class LinearIntoPlace : public torch::autograd::Function<LinearIntoPlace> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* saved, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& bias, const GradientPlace* place) {
    saved->save_for_backward({x, weight});
    saved->saved_data["place"] = reinterpret_cast<int64_t>(place);
    return at::linear(x, weight, bias);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* saved,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list variables = saved->get_saved_variables();
    const at::Tensor& x = variables[0];
    const at::Tensor& weight = variables[1];
    const at::Tensor& gradient = gradients[0];
    const auto& place = *reinterpret_cast<const GradientPlace*>(saved->saved_data["place"].toInt());
    at::Tensor of_x;
    if (saved->needs_input_grad(0)) of_x = at::mm(gradient, weight);
    at::Tensor of_weight = place.tensor;
    at::addmm_out(of_weight, of_weight, gradient.t(), x, place.add ? 1 : 0, place.scale);
    return {of_x, of_weight, gradient.sum(0), at::Tensor()};
  }
};

}  // namespace

Linear::Linear(replica::Parameters& parameters, const std::string& name, int64_t in, int64_t out,
               const LayerInit& init, bool relu)
    : in_(in),
      relu_(relu),
      weight_(parameters.add(name + ".weight", {out, in}, init.weight)),
      bias_(parameters.add(name + ".bias", out, *init.bias)),
      weight_gradient_(parameters.gradient_place(name + ".weight")),
      weight_copy_(parameters.narrow_copy(name + ".weight")),
      narrow_gradient_(parameters.narrow_gradient_sink(name + ".weight")),
      fused_(std::make_shared<onednn::FusedLinear>()) {}

at::Tensor Linear::operator()(const at::Tensor& x, const Context& context) const {
  if (context.fuses(x)) {
    const at::Tensor y = (*fused_)(x, weight_, bias_, *weight_gradient_);
    if (y.defined()) return relu_ ? relu_in_place(y, context) : y;
  }
  // Not with autocast, which computes with a narrow copy of the weight.
  const bool into_place = weight_gradient_->tensor.defined() && x.scalar_type() == at::kFloat &&
                          !replica::is_autocast_on(x.device().type());
  at::Tensor y =
      into_place ? LinearIntoPlace::apply(x, weight_, bias_, weight_gradient_.get())
                 : at::linear(x, narrow_weight(weight_, *weight_copy_, *narrow_gradient_, context), bias_);
  if (context.cost != nullptr) {
    context.cost->multiply_add(y.numel() * in_);
    context.cost->keep(x);
  }
  // In place, because the backward pass of a linear layer does not need its output.
  return relu_ ? relu_in_place(y, context) : y;
}

}  // namespace lockstep::kernels
