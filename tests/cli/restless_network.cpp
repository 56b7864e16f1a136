// A network that a machine disturbs at first: its first steps on rank 0 take many times as long as all
// others.

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include <torch/nn/modules/linear.h>

#include "lockstep/models/network_plugin.h"

namespace {

struct Restless : torch::nn::Module {
  at::Tensor forward(const at::Tensor& images) {
    const char* rank = std::getenv("LOCKSTEP_RANK");
    if (rank != nullptr && std::string_view(rank) == "0" && ++passes_ <= 20)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    // A step of some length, beside which noise is small.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return layer(images.flatten(1));
  }

  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(3, 2));
  /// Of this process.
  static inline int passes_ = 0;
};

lockstep::plugin::Network create_restless() {
  return lockstep::plugin::classifier(std::make_shared<Restless>(), {3, 1, 1}, 2);
}
LOCKSTEP_MODEL(restless, create_restless)

}  // namespace
