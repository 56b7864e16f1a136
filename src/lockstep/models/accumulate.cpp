#include "lockstep/models/accumulate.h"

#include <memory>
#include <utility>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

namespace lockstep::models {

void accumulate(const at::Tensor& parameter, at::Tensor gradient) {
  const std::shared_ptr<torch::autograd::Node> accumulator =
      torch::autograd::impl::grad_accumulator(parameter);
  if (!accumulator->post_hooks().empty()) {
    torch::autograd::Engine::get_default_engine().execute({torch::autograd::impl::gradient_edge(parameter)},
                                                          {std::move(gradient)}, /*keep_graph=*/false,
                                                          /*create_graph=*/false, /*accumulate_grad=*/true);
    return;
  }
  torch::autograd::variable_list gradients;
  gradients.push_back(std::move(gradient));
  for (const auto& hook : accumulator->tensor_pre_hooks()) gradients = (*hook)(gradients);
  (*accumulator)(std::move(gradients));
}

}  // namespace lockstep::models
