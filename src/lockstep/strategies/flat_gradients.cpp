#include "lockstep/strategies/flat_gradients.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mul.h>

namespace lockstep::strategies {
namespace {

/// place = scale * gradient, or place += scale * gradient.
void copy(const at::Tensor& gradient, double scale, bool add, at::Tensor place) {
  const at::NoGradGuard no_grad;
  if (add) {
    place.add_(gradient, scale);
  } else if (scale == 1) {
    place.copy_(gradient);
  } else {
    at::mul_out(place, gradient, at::Scalar(scale));
  }
}

}  // namespace

FlatGradients::FlatGradients(replica::Parameters& parameters, replica::FlatMemory& memory, double scale,
                             OnFinal on_final)
    : parameters_(parameters),
      memory_(memory),
      placeable_(parameters.placeable_gradients()),
      scale_(scale),
      on_final_(std::move(on_final)),
      hooks_(parameters.tensors(),
             [this](size_t index, const at::Tensor& gradient) { gradient_ready(index, gradient); }) {
  assign_places();
}

FlatGradients::~FlatGradients() {
  for (const size_t index : placeable_) parameters_.place_gradient(index, {});
}

void FlatGradients::begin_backward(bool last) {
  ++passes_;
  last_ = last;
  assign_places();
}

void FlatGradients::gradient_ready(size_t index, const at::Tensor& gradient) {
  const at::Tensor place = memory_.gradient_view(index);
  if (gradient.data_ptr() != place.data_ptr()) copy(gradient, scale_, passes_ > 1, place);
  if (last_) on_final_(index);
}

void FlatGradients::assign_places() {
  for (const size_t index : placeable_) {
    parameters_.place_gradient(index,
                               {.tensor = memory_.gradient_view(index), .scale = scale_, .add = passes_ > 1});
  }
}

}  // namespace lockstep::strategies
