#include "lockstep/kernels/conv_bn.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/batch_norm.h>

#include "lockstep/kernels/block_steps.h"
#include "lockstep/kernels/image_layout.h"

namespace lockstep::kernels {
namespace {

using replica::Init;

constexpr const char* kCounter = ".num_batches_tracked";

LayerInit first_values(const ConvShape& shape, const ConvBnStyle& style) {
  if (style.weight_deviation) return {Init::normal(*style.weight_deviation), std::nullopt};
  return kaiming_normal_fan_out(shape.out_channels, shape.kernel.height * shape.kernel.width);
}

}  // namespace

void count_batch(const replica::Parameters& parameters) {
  std::vector<at::Tensor> counters;
  for (const replica::NamedTensor& buffer : parameters.buffers())
    if (buffer.name.ends_with(kCounter)) counters.push_back(buffer.value);
  if (!counters.empty()) at::_foreach_add_(counters, at::Scalar(1));
}

BatchNorm::BatchNorm(replica::Parameters& parameters, const std::string& name, int64_t channels,
                     double epsilon)
    : layer_{.weight = parameters.add(name + ".weight", channels, Init::constant(1)),
             .bias = parameters.add(name + ".bias", channels, Init::constant(0)),
             .running_mean = parameters.add_buffer(name + ".running_mean", channels, 0),
             .running_variance = parameters.add_buffer(name + ".running_var", channels, 1),
             .epsilon = epsilon} {
  parameters.add_buffer(name + kCounter, {}, 0, at::kLong);
}

Fork BatchNorm::operator()(const at::Tensor& x, const NormTail& tail, const Context& context) const {
  if (context.cost != nullptr) context.cost->keep(x);
  if (context.fuses(x) && can_block(channels_of(x))) {
    const at::Tensor residual = tail.residual ? to_blocked(tail.residual(), x.scalar_type()) : at::Tensor();
    return fused_norm(to_blocked(x), residual, layer_, tail.steps, context.norm_ranks);
  }
  if (context.training && context.gpu_kernels != nullptr && has_gpu_norm(x)) {
    const at::Tensor residual = tail.residual ? tail.residual().to(x.scalar_type()) : at::Tensor();
    return gpu_norm(x, residual, layer_, tail.steps, *context.gpu_kernels);
  }
  at::Tensor y =
      context.training && context.norm_ranks != nullptr
          ? joint_norm(to_plain(x), layer_, *context.norm_ranks)
          : at::batch_norm(x, layer_.weight, layer_.bias, layer_.running_mean, layer_.running_variance,
                           context.training, layer_.momentum, layer_.epsilon, /*cudnn_enabled=*/true);
  // In place, because the backward pass of a normalization needs its input, not its output.
  if (tail.residual) y.add_(to_plain(tail.residual()));
  if (tail.steps.relu) y = relu_in_place(y, context);
  return {y, y};
}

ConvBn::ConvBn(replica::Parameters& parameters, const ConvBnNames& names, const ConvShape& shape,
               const ConvBnStyle& style)
    : conv_(parameters, names.conv, shape, first_values(shape, style)),
      bn_(parameters, names.bn, shape.out_channels, style.epsilon) {}

at::Tensor ConvBn::operator()(const at::Tensor& x, const Context& context) const {
  return (*this)(x, NormTail{}, context).path;
}

Fork ConvBn::operator()(const at::Tensor& x, const NormTail& tail, const Context& context) const {
  return bn_(conv_(x, context), tail, context);
}

at::Tensor ConvBnRelu::operator()(const at::Tensor& x, const Context& context) const {
  return conv_bn_(x, {.residual = {}, .steps = {.relu = true}}, context).path;
}

Fork ConvBnAddRelu::operator()(const at::Tensor& x, const std::function<at::Tensor()>& residual,
                               const Context& context) const {
  return conv_bn_(x, {.residual = residual, .steps = {.relu = true, .forks = true}}, context);
}

}  // namespace lockstep::kernels
