#include "lockstep/kernels/dropout.h"

#include <utility>

#include <ATen/TensorOperators.h>

#include "lockstep/kernels/counter_mask.h"
#include "lockstep/replica/random.h"

namespace lockstep::kernels {

Dropout::Dropout(std::string name, double probability) : name_(std::move(name)), probability_(probability) {}

at::Tensor Dropout::operator()(const at::Tensor& x, const Context& context) const {
  if (!context.training || !context.dropout) return x;
  const at::Tensor mask =
      counter_mask(x, probability_, replica::stream_seed(context.seed, name_ + ".mask"), context);
  if (context.cost != nullptr) context.cost->keep(mask);
  return x * mask;
}

}  // namespace lockstep::kernels
