#include "lockstep/kernels/dropout.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "lockstep/kernels/counter_mask.h"
#include "lockstep/replica/random.h"

namespace lockstep::kernels {

Dropout::Dropout(std::string name, double probability) : name_(std::move(name)), probability_(probability) {}

at::Tensor Dropout::operator()(const at::Tensor& x, const Context& context) const {
  if (!context.training || !context.dropout) return x;
  const at::Tensor mask =
      x.is_cpu()
          ? draw_mask(x, context)
          : counter_mask(x, probability_, replica::stream_seed(context.seed, name_ + ".mask"), context);
  if (context.cost != nullptr) context.cost->keep(mask);
  return x * mask;
}

at::Tensor Dropout::draw_mask(const at::Tensor& x, const Context& context) const {
  const at::NoGradGuard no_grad;
  const int64_t step =
      context.step_on_device == nullptr ? context.step : context.step_on_device->item<int64_t>();
  const uint64_t stream = replica::stream_seed(context.seed, name_ + ".mask", static_cast<uint64_t>(step));
  at::Tensor mask = at::empty(x.sizes(), x.options());
  for (int64_t i = 0; i < x.size(0); ++i) {
    mask.select(0, i).bernoulli_(
        1 - probability_,
        replica::stream_generator(stream, "sample", static_cast<uint64_t>(context.first_sample + i)));
  }
  return mask.div_(1 - probability_);
}

}  // namespace lockstep::kernels
