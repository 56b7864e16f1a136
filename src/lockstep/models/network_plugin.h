#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/version.h>

/// A network of your own in C++, for `lockstep bench --model ./libmine.so:mine`. Self-contained: includes
/// nothing but LibTorch. docs/your-network.md says how to build the shared object; examples/own_network.cpp
/// is one.
///
///     lockstep::plugin::Network create_mine() {
///       return lockstep::plugin::classifier(std::make_shared<Mine>(), {3, 32, 32}, 10);
///     }
///     LOCKSTEP_MODEL(mine, create_mine)

namespace lockstep::plugin {

/// Version of this header's structures. Program and plugin must have the same one, and the same minor version
/// of LibTorch.
inline constexpr uint32_t kNetworkPluginVersion = 1;

/// An input or a target: one sample of it, and how random ones are drawn.
struct Sample {
  std::string name;
  /// Without the batch, which comes first; empty for a number, such as a label.
  std::vector<int64_t> shape;
  at::ScalarType type = at::kFloat;
  /// Floating-point numbers: a normal distribution.
  double mean = 0;
  double deviation = 1;
  /// Whole numbers: from `low` to `high` - 1, all equally likely.
  int64_t low = 0;
  int64_t high = 2;
};

using Tensors = std::vector<at::Tensor>;

/// One replica of a network, and what it is trained on. Used by one thread at a time.
struct Network {
  /// fp32 on the CPU. Its initial values come from LibTorch's default generator, which is seeded before.
  std::shared_ptr<torch::nn::Module> module;
  std::vector<Sample> inputs;
  std::vector<Sample> targets;
  /// Forward pass and loss: one fp32 number, the mean over the batch. Tensors are in the order of `inputs`
  /// and of `targets`. Autograd does the rest.
  std::function<at::Tensor(const Tensors& inputs, const Tensors& targets)> loss;
  /// The name of a sample in tables, and how many of them a sample of the batch holds: 1 image, 128 tokens.
  std::string unit = "sample";
  int64_t units_per_sample = 1;
  /// Batch of a rank without --batch.
  int default_batch = 8;
  /// Multiply-adds of the forward pass of one sample; 0: unknown.
  int64_t multiply_adds = 0;
  /// Whether images and convolutions, if there are any, are laid out with channels last.
  bool channels_last = true;
};

/// A network that takes images of the shape [channels, height, width] and gives the logits of `classes`
/// classes, trained with cross entropy. Module: has `at::Tensor forward(at::Tensor images)`.
template <typename Module>
Network classifier(std::shared_ptr<Module> module, std::vector<int64_t> image, int64_t classes) {
  return {.module = module,
          .inputs = {{.name = "images", .shape = std::move(image)}},
          .targets = {{.name = "labels", .shape = {}, .type = at::kLong, .low = 0, .high = classes}},
          .loss =
              [module](const Tensors& inputs, const Tensors& targets) {
                return torch::nn::functional::cross_entropy(module->forward(inputs[0]), targets[0]);
              },
          .unit = "image"};
}

/// One LOCKSTEP_MODEL; a list.
struct Entry {
  const char* name;
  Network (*create)();
  const Entry* next;
};

/// The result of the function lockstep_networks() of a shared object. The versions stay first, so that every
/// program can read them.
struct Table {
  uint32_t version;
  uint32_t torch_major;
  uint32_t torch_minor;
  const Entry* first;
};

/// The shared object's own table. Hidden, because the loader would unite those of several shared objects.
__attribute__((visibility("hidden"))) inline Table& own_table() {
  static Table table{kNetworkPluginVersion, TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, nullptr};
  return table;
}

/// Puts an entry into the table when the shared object is opened.
class Registration {
 public:
  Registration(const char* name, Network (*create)()) : entry_{name, create, own_table().first} {
    own_table().first = &entry_;
  }

 private:
  Entry entry_;
};

}  // namespace lockstep::plugin

/// The one symbol that a program looks up in a shared object; `used`, because nothing here calls it.
extern "C" __attribute__((visibility("default"), used)) inline const lockstep::plugin::Table*
lockstep_networks() {
  return &lockstep::plugin::own_table();
}

/// Offers a network under a name, which is an identifier. The rest: a function without arguments, or a lambda
/// without captures, that returns a lockstep::plugin::Network. Once per network, in a source file.
#define LOCKSTEP_MODEL(name, ...) \
  static const ::lockstep::plugin::Registration lockstep_model_##name(#name, __VA_ARGS__);
