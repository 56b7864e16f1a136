#include <optional>
#include <string_view>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/onednn/conv_plan.h"
#include "lockstep/kernels/onednn/fused_layers.h"
#include "lockstep/kernels/winograd_conv.h"

namespace lockstep::kernels::onednn {
namespace {

using replica::GradientPlace;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Up to this many channels, oneDNN has fast code for plain images.
constexpr int64_t kFewChannels = 3;

class ConvFunction : public torch::autograd::Function<ConvFunction> {
 public:
  static at::Tensor forward(AutogradContext* saved, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const ConvPlan* plan,
                            const GradientPlace* place) {
    const at::Tensor y = at::empty(plan->output_sizes, x.options());
    const Read in(plan->forward_x, x);
    const Read weights(plan->forward_weight, weight);
    Written out(plan->forward_y, y);
    Arguments arguments{
        {DNNL_ARG_SRC, in.memory()}, {DNNL_ARG_WEIGHTS, weights.memory()}, {DNNL_ARG_DST, out.memory()}};
    if (bias) arguments.emplace(DNNL_ARG_BIAS, memory_of(plan->bias, *bias));
    run(plan->forward_primitive, plan->forward.scratchpad_desc(), std::move(arguments));
    out.finish();
    saved->save_for_backward({x, weight, plan->relu ? y : at::Tensor()});
    saved->saved_data["plan"] = reinterpret_cast<int64_t>(plan);
    saved->saved_data["place"] = reinterpret_cast<int64_t>(place);
    saved->saved_data["bias"] = bias.has_value();
    return y;
  }

  static variable_list backward(AutogradContext* saved, const variable_list& gradients) {
    const variable_list variables = saved->get_saved_variables();
    const auto& plan = *reinterpret_cast<const ConvPlan*>(saved->saved_data["plan"].toInt());
    const auto& wanted = *reinterpret_cast<const GradientPlace*>(saved->saved_data["place"].toInt());
    const at::Tensor& x = variables[0];
    const at::Tensor& weight = variables[1];
    at::Tensor gradient = gradients[0].contiguous();
    if (plan.relu) gradient = through_relu(plan, gradient, variables[2]);
    at::Tensor of_x;
    if (saved->needs_input_grad(0)) {
      of_x = at::empty_like(x);
      const Read in(plan.backward_data_dy, gradient);
      const Read weights(plan.backward_data_weight, weight);
      Written out(plan.backward_data_dx, of_x);
      run(plan.backward_data_primitive, plan.backward_data.scratchpad_desc(),
          {{DNNL_ARG_DIFF_DST, in.memory()},
           {DNNL_ARG_WEIGHTS, weights.memory()},
           {DNNL_ARG_DIFF_SRC, out.memory()}});
      out.finish();
    }
    at::Tensor of_bias;
    if (saved->saved_data["bias"].toBool()) of_bias = at::empty({weight.size(0)}, at::kFloat);
    const GradientPlace place = wanted.or_new(weight);
    write_weight_gradient(plan, x, gradient, of_bias, place);
    return {of_x, place.tensor, of_bias, at::Tensor(), at::Tensor()};
  }

 private:
  static at::Tensor through_relu(const ConvPlan& plan, const at::Tensor& gradient, const at::Tensor& y) {
    at::Tensor masked = at::empty_like(gradient);
    run(plan.relu_backward_primitive, plan.relu_backward.scratchpad_desc(),
        {{DNNL_ARG_DST, memory_of(plan.output, y)},
         {DNNL_ARG_DIFF_DST, memory_of(plan.output, gradient)},
         {DNNL_ARG_DIFF_SRC, memory_of(plan.output, masked)}});
    return masked;
  }

  static void write_weight_gradient(const ConvPlan& plan, const at::Tensor& x, const at::Tensor& gradient,
                                    const at::Tensor& of_bias, const GradientPlace& place) {
    const Read in(plan.backward_weights_x, x);
    const Read behind(plan.backward_weights_dy, gradient);
    Written out(plan.backward_weights_gradient, place.tensor, place.scale, place.add);
    Arguments arguments{{DNNL_ARG_SRC, in.memory()},
                        {DNNL_ARG_DIFF_DST, behind.memory()},
                        {DNNL_ARG_DIFF_WEIGHTS, out.memory()}};
    if (of_bias.defined()) arguments.emplace(DNNL_ARG_DIFF_BIAS, memory_of(plan.bias, of_bias));
    run(plan.backward_weights_primitive, plan.backward_weights.scratchpad_desc(), std::move(arguments));
    out.finish();
  }
};

}  // namespace

FusedConv::FusedConv(const ConvShape& shape, bool relu) : shape_(shape), relu_(relu) {}

FusedConv::~FusedConv() = default;

const ConvPlan* FusedConv::plan_for(const at::Tensor& x, const at::Tensor& weight, bool with_bias) {
  std::vector<int64_t> key = x.sizes().vec();
  key.push_back(static_cast<int64_t>(x.scalar_type()));
  const auto [found, is_new] = plans_.try_emplace(std::move(key));
  if (is_new) found->second = make_conv_plan(shape_, relu_, x, weight, with_bias);
  return found->second.get();
}

at::Tensor FusedConv::operator()(const at::Tensor& given, const at::Tensor& weight, const at::Tensor& bias,
                                 const GradientPlace& place) {
  if (!can_block(shape_.out_channels)) return {};
  const bool blocks = can_block(shape_.in_channels);
  if (!blocks && (shape_.in_channels > kFewChannels || is_blocked(given) || given.requires_grad())) return {};
  const at::Tensor x = (blocks ? to_blocked(given) : given.contiguous()).to(computing_type(given));
  if (blocks && can_winograd(shape_, x, weight)) return winograd_conv(shape_, relu_, x, weight, bias, place);
  const ConvPlan* plan = plan_for(x, weight, bias.defined());
  if (plan == nullptr) return {};
  return ConvFunction::apply(x, weight, bias.defined() ? std::optional(bias) : std::nullopt, plan, &place);
}

}  // namespace lockstep::kernels::onednn
