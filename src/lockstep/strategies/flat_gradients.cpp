#include "lockstep/strategies/flat_gradients.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

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

struct Copies {
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> places;
};

/// copy() of many gradients of one type, all with the strides of their places: a single other one would slow
/// down all.
void copy_together(const Copies& copies, double scale, bool add) {
  const auto& [gradients, places] = copies;
  if (gradients.empty()) return;
  const at::NoGradGuard no_grad;
  if (add) {
    at::_foreach_add_(places, gradients, at::Scalar(scale));
    return;
  }
  at::_foreach_copy_(places, gradients, /*non_blocking=*/true);
  if (scale != 1) at::_foreach_mul_(places, at::Scalar(scale));
}

}  // namespace

/// Called in the backward pass as soon as the gradient of a parameter is final. The gradient then belongs to
/// the callee: autograd does not add it to `.grad`.
class FlatGradients::Hook final : public torch::autograd::FunctionPreHook {
 public:
  Hook(size_t index, std::weak_ptr<OnGradient> on_gradient)
      : index_(index), on_gradient_(std::move(on_gradient)) {}

  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& gradients) override {
    const auto on_gradient = on_gradient_.lock();
    if (!on_gradient || !gradients.front().defined()) return gradients;
    (*on_gradient)(index_, gradients.front());
    // Autograd does not accumulate undefined gradients.
    return std::vector<at::Tensor>(1);
  }

 private:
  size_t index_;
  std::weak_ptr<OnGradient> on_gradient_;
};

Copying copying_for(const replica::FlatMemory& memory) {
  return memory.gradients({}).is_cuda() ? Copying::kTogether : Copying::kEach;
}

FlatGradients::FlatGradients(replica::Parameters& parameters, replica::FlatMemory& memory, double scale,
                             Copying copying, OnFinal on_final)
    : parameters_(parameters),
      memory_(memory),
      copying_(copying),
      scale_(scale),
      on_final_(std::move(on_final)),
      on_gradient_(std::make_shared<OnGradient>(
          [this](size_t index, const at::Tensor& gradient) { gradient_ready(index, gradient); })) {
  const std::vector<at::Tensor> tensors = parameters.tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    torch::autograd::impl::add_hook(tensors[i], std::make_unique<Hook>(i, on_gradient_));
  }
  // Not on a GPU, where blocks do not check autocast before they write.
  const bool on_gpu = memory.gradients({}).is_cuda();
  if (copying_ == Copying::kEach && !on_gpu) placeable_ = parameters.placeable_gradients();
  assign_places();
  if (copying_ == Copying::kEach) return;
  // Their gradients are widened as they are copied, instead of one by one before.
  narrow_ = parameters.narrowable();
  for (const size_t index : narrow_) {
    parameters_.set_narrow_gradient_sink(
        index, [this, index](const at::Tensor& gradient) { gradient_ready(index, gradient); });
  }
}

FlatGradients::~FlatGradients() {
  for (const size_t index : narrow_) parameters_.set_narrow_gradient_sink(index, {});
  for (const size_t index : placeable_) parameters_.place_gradient(index, {});
}

void FlatGradients::begin_step() {
  passes_ = 0;
  waiting_.clear();
}

void FlatGradients::begin_backward(bool last) {
  // The gradients of the previous micro-batch.
  fill_places();
  ++passes_;
  last_ = last;
  assign_places();
}

void FlatGradients::fill_places() {
  Copies wide, narrow;
  for (auto& [index, gradient] : waiting_) {
    const at::Tensor place = memory_.gradient_view(index);
    if (gradient.strides() != place.strides()) {
      copy(gradient, scale_, passes_ > 1, place);
      continue;
    }
    Copies& copies = gradient.scalar_type() == place.scalar_type() ? wide : narrow;
    copies.gradients.push_back(std::move(gradient));
    copies.places.push_back(place);
  }
  waiting_.clear();
  copy_together(wide, scale_, passes_ > 1);
  copy_together(narrow, scale_, passes_ > 1);
}

void FlatGradients::gradient_ready(size_t index, const at::Tensor& gradient) {
  if (copying_ == Copying::kTogether) {
    waiting_.emplace_back(index, gradient);
  } else {
    const at::Tensor place = memory_.gradient_view(index);
    if (gradient.data_ptr() != place.data_ptr()) copy(gradient, scale_, passes_ > 1, place);
  }
  if (last_) on_final_(index);
}

void FlatGradients::assign_places() {
  for (const size_t index : placeable_) {
    parameters_.place_gradient(index,
                               {.tensor = memory_.gradient_view(index), .scale = scale_, .add = passes_ > 1});
  }
}

}  // namespace lockstep::strategies
