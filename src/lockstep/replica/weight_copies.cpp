#include "lockstep/replica/weight_copies.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>

namespace lockstep::replica {

WeightCopies::WeightCopies(Parameters& parameters, at::ScalarType dtype)
    : parameters_(parameters), indices_(parameters.narrowable()) {
  for (const size_t index : indices_) {
    const at::Tensor weight = parameters_.trainable()[index].value.detach();
    copies_.push_back(at::empty_like(weight, weight.options().dtype(dtype)));
    parameters_.set_narrow_copy(index, copies_.back());
  }
}

WeightCopies::~WeightCopies() {
  for (const size_t index : indices_) parameters_.set_narrow_copy(index, {});
}

void WeightCopies::refresh() {
  if (copies_.empty()) return;
  const at::NoGradGuard no_grad;
  // Look up the parameters every time: a strategy may have given them other storage.
  std::vector<at::Tensor> weights;
  for (const size_t index : indices_) weights.push_back(parameters_.trainable()[index].value.detach());
  at::_foreach_copy_(copies_, weights, /*non_blocking=*/true);
}

}  // namespace lockstep::replica
