#include "lockstep/strategies/gradient_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace lockstep::strategies {
namespace {

class Hook final : public torch::autograd::FunctionPreHook {
 public:
  Hook(size_t index, std::weak_ptr<GradientHooks::OnGradient> on_gradient)
      : index_(index), on_gradient_(std::move(on_gradient)) {}

  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& gradients) override {
    const auto on_gradient = on_gradient_.lock();
    if (!on_gradient || !gradients.front().defined()) return gradients;
    (*on_gradient)(index_, gradients.front());
    // An undefined gradient is what autograd does not accumulate.
    return std::vector<at::Tensor>(1);
  }

 private:
  size_t index_;
  std::weak_ptr<GradientHooks::OnGradient> on_gradient_;
};

}  // namespace

GradientHooks::GradientHooks(const std::vector<at::Tensor>& parameters, OnGradient on_gradient)
    : on_gradient_(std::make_shared<OnGradient>(std::move(on_gradient))) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    torch::autograd::impl::add_hook(parameters[i], std::make_unique<Hook>(i, on_gradient_));
  }
}

GradientHooks::~GradientHooks() = default;

}  // namespace lockstep::strategies
