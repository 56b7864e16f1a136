#include "lockstep/kernels/batch_norm.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/batch_norm.h>

#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/relu.h"

namespace lockstep::kernels {

using replica::Init;

void count_batch(const std::vector<at::Tensor>& counters) {
  if (!counters.empty()) at::_foreach_add_(counters, at::Scalar(1));
}

BatchNorm::BatchNorm(replica::Parameters& parameters, const std::string& name, int64_t channels,
                     double epsilon)
    : layer_{.weight = parameters.add(name + ".weight", channels, Init::constant(1)),
             .bias = parameters.add(name + ".bias", channels, Init::constant(0)),
             .running_mean = parameters.add_buffer(name + ".running_mean", channels, 0),
             .running_variance = parameters.add_buffer(name + ".running_var", channels, 1),
             .epsilon = epsilon},
      num_batches_tracked_(parameters.add_buffer(name + ".num_batches_tracked", {}, 0, at::kLong)) {}

Fork BatchNorm::operator()(const at::Tensor& x, const NormTail& tail, const Context& context) const {
  if (context.cost != nullptr) context.cost->keep(x);
  if (context.training && context.batch_counters != nullptr) {
    context.batch_counters->push_back(num_batches_tracked_);
  } else if (context.training) {
    num_batches_tracked_.add_(1);
  }
  if (context.fuses(x) && can_block(channels_of(x))) {
    const at::Tensor residual =
        tail.residual ? to_blocked(tail.residual()).to(x.scalar_type()) : at::Tensor();
    return fused_norm(to_blocked(x), residual, layer_, tail.steps);
  }
  at::Tensor y = at::batch_norm(x, layer_.weight, layer_.bias, layer_.running_mean, layer_.running_variance,
                                context.training, layer_.momentum, layer_.epsilon, /*cudnn_enabled=*/true);
  // The normalisation's backward pass needs its input, not its output.
  if (tail.residual) y.add_(to_plain(tail.residual()));
  if (tail.steps.relu) y = relu_in_place(y, context);
  return {y, y};
}

}  // namespace lockstep::kernels
