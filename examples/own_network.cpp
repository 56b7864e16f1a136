// Networks of your own for lockstep, as a shared object: include one header, describe a sample, and name the
// network.
//
//   lockstep bench --model ./libown_network.so:convnet --ranks 1,2
//
// docs/your-network.md has the command that builds it.

#include <tuple>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>
#include <torch/nn/modules/rnn.h>

#include "lockstep/models/network_plugin.h"

namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using lockstep::plugin::Network;
using lockstep::plugin::Tensors;

/// Three convolutions with batch normalization for images of 32x32.
struct ConvNet : nn::Module {
  ConvNet() {
    int64_t in = 3;
    for (const int64_t out : {32, 64, 128}) {
      layers->push_back(nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1).bias(false)));
      layers->push_back(nn::BatchNorm2d(out));
      layers->push_back(nn::ReLU());
      layers->push_back(nn::MaxPool2d(2));
      in = out;
    }
  }
  at::Tensor forward(const at::Tensor& images) { return head(layers->forward(images).mean({2, 3})); }

  nn::Sequential layers = register_module("layers", nn::Sequential());
  nn::Linear head = register_module("head", nn::Linear(128, 10));
};

/// Images, labels and cross entropy.
Network create_convnet() {
  Network network = lockstep::plugin::classifier(std::make_shared<ConvNet>(), {3, 32, 32}, 10);
  network.default_batch = 32;
  return network;
}
LOCKSTEP_MODEL(convnet, create_convnet)

/// Predicts the value that follows a series.
struct Forecast : nn::Module {
  at::Tensor forward(const at::Tensor& series) {
    const at::Tensor states = std::get<0>(memory(series));
    return head(states.select(1, -1)).squeeze(1);
  }

  nn::GRU memory = register_module("memory", nn::GRU(nn::GRUOptions(4, 32).batch_first(true)));
  nn::Linear head = register_module("head", nn::Linear(32, 1));
};

/// Everything spelled out: windows of 24 moments with 4 values go in, one value comes out, and the loss is
/// one's own.
Network create_forecast() {
  const auto module = std::make_shared<Forecast>();
  return {.module = module,
          .inputs = {{.name = "series", .shape = {24, 4}}},
          .targets = {{.name = "next", .shape = {}}},
          .loss = [module](
                      const Tensors& inputs,
                      const Tensors& targets) { return F::mse_loss(module->forward(inputs[0]), targets[0]); },
          .unit = "window",
          .default_batch = 16,
          .multiply_adds = 24 * 3 * (4 + 32) * 32 + 32};
}
LOCKSTEP_MODEL(forecast, create_forecast)

}  // namespace
