#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/kernels/onednn/engine.h"
#include "lockstep/kernels/onednn/fused_layers.h"
#include "lockstep/replica/releasable_memory.h"

namespace lockstep::kernels::onednn {

using dnnl::memory;
using replica::GradientPlace;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct LinearPlan {
  memory::desc x, y, bias, weights;
  /// Scales the weight's gradient, or adds it to its place.
  Reorder gradient;
  Operation<dnnl::inner_product_forward> forward;
  Operation<dnnl::inner_product_backward_data> backward_data;
  Operation<dnnl::inner_product_backward_weights> backward_weights;
};

namespace {

/// Null if oneDNN has only slow code.
std::unique_ptr<LinearPlan> make_linear_plan(const at::Tensor& x, const at::Tensor& weight) {
  auto plan = std::make_unique<LinearPlan>();
  const memory::data_type type = type_of(x.scalar_type());
  const memory::data_type fp32 = memory::data_type::f32;
  const int64_t out = weight.size(0);
  plan->x = {x.sizes().vec(), type, memory::format_tag::ab};
  plan->y = {{x.size(0), out}, type, memory::format_tag::ab};
  plan->bias = {{out}, fp32, memory::format_tag::a};
  const memory::desc parameter(weight.sizes().vec(), fp32, memory::format_tag::ab);
  // Plain weights. The primitives prefer a blocked layout, but reordering so many weights for so few rows
  // takes longer than it saves.
  const memory::desc weights(weight.sizes().vec(), type, memory::format_tag::ab);
  const dnnl::inner_product_forward::primitive_desc forward(
      engine(), dnnl::prop_kind::forward_training, plan->x, weights, plan->bias, plan->y, user_scratchpad());
  const dnnl::inner_product_backward_data::primitive_desc backward_data(engine(), plan->x, weights, plan->y,
                                                                        forward, user_scratchpad());
  const dnnl::inner_product_backward_weights::primitive_desc backward_weights(
      engine(), plan->x, parameter, plan->bias, plan->y, forward, user_scratchpad());
  for (const char* implementation :
       {forward.impl_info_str(), backward_data.impl_info_str(), backward_weights.impl_info_str()}) {
    if (is_reference(implementation)) return nullptr;
  }
  plan->forward = forward;
  plan->backward_data = backward_data;
  plan->backward_weights = backward_weights;
  plan->weights = weights;
  plan->gradient = {parameter, parameter};
  return plan;
}

/// oneDNN's forward pass, for bf16. In fp32, LibTorch's matrix product reads plain weights faster than
/// oneDNN's forward primitive (44 ms against 75 for 64 rows and 9216 x 4096 weights on a Zen 4), while
/// oneDNN's backward primitives are faster than LibTorch's products (51 ms against 79).
at::Tensor multiply(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& bias,
                    const LinearPlan& plan) {
  at::Tensor y = at::empty({x.size(0), weights.size(0)}, x.options());
  plan.forward.run({{DNNL_ARG_SRC, memory_of(plan.x, x)},
                    {DNNL_ARG_WEIGHTS, memory_of(plan.weights, weights)},
                    {DNNL_ARG_BIAS, memory_of(plan.bias, bias)},
                    {DNNL_ARG_DST, memory_of(plan.y, y)}});
  return y;
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* saved, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const LinearPlan* plan, const GradientPlace* place) {
    replica::uses(weight, bias);
    // Narrowed once for both passes.
    const at::Tensor weights = weight.to(x.scalar_type());
    const at::Tensor y =
        x.scalar_type() == at::kFloat ? at::addmm(bias, x, weight.t()) : multiply(x, weights, bias, *plan);
    saved->save_for_backward({x, weight, weights});
    saved->saved_data["plan"] = reinterpret_cast<int64_t>(plan);
    saved->saved_data["place"] = reinterpret_cast<int64_t>(place);
    return y;
  }

  static variable_list backward(AutogradContext* saved, const variable_list& gradients) {
    const variable_list variables = saved->get_saved_variables();
    const at::Tensor& x = variables[0];
    const at::Tensor& weight = variables[1];
    const auto& plan = *reinterpret_cast<const LinearPlan*>(saved->saved_data["plan"].toInt());
    const auto& wanted = *reinterpret_cast<const GradientPlace*>(saved->saved_data["place"].toInt());
    replica::uses(weight, wanted.tensor);
    const at::Tensor gradient = gradients[0].contiguous();
    const memory behind = memory_of(plan.y, gradient);
    at::Tensor of_x;
    if (saved->needs_input_grad(0)) {
      of_x = at::empty_like(x);
      plan.backward_data.run({{DNNL_ARG_DIFF_DST, behind},
                              {DNNL_ARG_WEIGHTS, memory_of(plan.weights, variables[2])},
                              {DNNL_ARG_DIFF_SRC, memory_of(plan.x, of_x)}});
    }
    const GradientPlace place = wanted.or_new(weight);
    const at::Tensor of_bias = at::empty({weight.size(0)}, weight.options());
    Written out(plan.gradient, place.tensor, place.scale, place.add);
    plan.backward_weights.run({{DNNL_ARG_SRC, memory_of(plan.x, x)},
                               {DNNL_ARG_DIFF_DST, behind},
                               {DNNL_ARG_DIFF_WEIGHTS, out.memory()},
                               {DNNL_ARG_DIFF_BIAS, memory_of(plan.bias, of_bias)}});
    out.finish();
    return {of_x, place.tensor, of_bias, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

FusedLinear::FusedLinear() = default;
FusedLinear::~FusedLinear() = default;

at::Tensor FusedLinear::operator()(const at::Tensor& given, const at::Tensor& weight, const at::Tensor& bias,
                                   const GradientPlace& place) {
  const at::Tensor x = given.to(computing_type(given)).contiguous();
  const LinearPlan* plan = plan_for(plans_, x, [&] { return make_linear_plan(x, weight); });
  return plan == nullptr ? at::Tensor() : LinearFunction::apply(x, weight, bias, plan, &place);
}

}  // namespace lockstep::kernels::onednn
