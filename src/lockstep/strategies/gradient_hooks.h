#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::strategies {

/// Calls back, from the backward pass, the moment the gradient of a parameter is final. The gradient is then
/// the callee's: autograd adds it to no `.grad`. Parameters keep their hooks as long as they live; after this
/// object's end these do nothing but let autograd go on as without them.
class GradientHooks {
 public:
  /// `index`: of the parameter in `parameters`.
  using OnGradient = std::function<void(size_t index, const at::Tensor& gradient)>;

  GradientHooks(const std::vector<at::Tensor>& parameters, OnGradient on_gradient);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  std::shared_ptr<OnGradient> on_gradient_;
};

}  // namespace lockstep::strategies
