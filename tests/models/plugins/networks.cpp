// Networks for plugin_model_test.cpp: some that can be trained, and one for every reason not to.

#include <stdexcept>

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/models/network_plugin.h"

namespace {

namespace nn = torch::nn;
using lockstep::plugin::classifier;
using lockstep::plugin::Network;
using lockstep::plugin::Tensors;

struct Mlp : nn::Module {
  explicit Mlp(double dropout) : drop(register_module("drop", nn::Dropout(dropout))) {}
  at::Tensor forward(const at::Tensor& images) { return last(drop(first(images.flatten(1)).relu())); }

  nn::Linear first = register_module("first", nn::Linear(12, 8));
  nn::Dropout drop;
  nn::Linear last = register_module("last", nn::Linear(8, 5));
};

Network mlp(double dropout) {
  return classifier(std::make_shared<Mlp>(dropout), {3, 2, 2}, 5);
}

LOCKSTEP_MODEL(mlp, [] { return mlp(0); })
LOCKSTEP_MODEL(with_dropout, [] { return mlp(0.5); })

/// Two layers with one weight, a layer that is not trained, and a convolution.
struct Mixed : nn::Module {
  Mixed() {
    frozen->weight.set_requires_grad(false);
    register_module("again", again);
  }
  at::Tensor forward(const at::Tensor& images) {
    return again(frozen(again(convolution(images).mean({2, 3}))));
  }

  nn::Conv2d convolution = register_module("convolution", nn::Conv2d(nn::Conv2dOptions(3, 5, 1).bias(false)));
  nn::Linear shared = register_module("shared", nn::Linear(nn::LinearOptions(5, 5).bias(false)));
  nn::Linear frozen = register_module("frozen", nn::Linear(nn::LinearOptions(5, 5).bias(false)));
  nn::Linear again = shared;
};
LOCKSTEP_MODEL(mixed, [] { return classifier(std::make_shared<Mixed>(), {3, 2, 2}, 5); })

LOCKSTEP_MODEL(failing, []() -> Network { throw std::runtime_error("no weights here"); })

LOCKSTEP_MODEL(no_loss, [] {
  Network network = mlp(0);
  network.loss = nullptr;
  return network;
})

LOCKSTEP_MODEL(many_losses, [] {
  Network network = mlp(0);
  network.loss = [](const Tensors& inputs, const Tensors& /*targets*/) { return inputs[0].sum(1); };
  return network;
})

LOCKSTEP_MODEL(other_shape, [] {
  Network network = mlp(0);
  network.inputs[0].shape = {3, 3, 3};
  return network;
})

LOCKSTEP_MODEL(no_values, [] {
  Network network = mlp(0);
  network.targets[0].high = 0;
  return network;
})

LOCKSTEP_MODEL(double_precision, [] {
  Network network = mlp(0);
  network.module->to(at::kDouble);
  return network;
})

LOCKSTEP_MODEL(strange_unit, [] {
  Network network = mlp(0);
  network.unit = "Bild/s";
  return network;
})

}  // namespace
