#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/registry.h"
#include "lockstep/kernels/context.h"
#include "lockstep/kernels/layer.h"
#include "lockstep/models/output.h"
#include "lockstep/replica/parameters.h"

namespace lockstep::models {

/// Classes of the data sets that the networks were published for.
inline constexpr int64_t kImageNetClasses = 1000;
inline constexpr int64_t kCifar10Classes = 10;

/// A network: learned tensors and a forward pass, written in terms of the blocks in kernels/.
/// Not thread safe: a replica belongs to one thread.
class Model {
 public:
  virtual ~Model() = default;

  /// images: [batch, channels, size, size] fp32, in the model's memory format.
  virtual Output forward(const at::Tensor& images, const kernels::Context& context) = 0;

  const replica::Parameters& parameters() const { return parameters_; }
  replica::Parameters& parameters() { return parameters_; }

 protected:
  explicit Model(replica::Parameters parameters) : parameters_(std::move(parameters)) {}

  replica::Parameters parameters_;
};

struct ModelOptions {
  uint64_t seed = 1;
  at::MemoryFormat memory_format = at::MemoryFormat::ChannelsLast;
};

/// What is known of a network before it is built.
struct ModelInfo {
  /// Trainable values, as published; the tests compare them with what is built.
  int64_t parameters = 0;
  /// Of the forward pass of one image of image_size in training, auxiliary classifiers included; tested
  /// likewise.
  int64_t multiply_adds = 0;
  int64_t channels = 3;
  int64_t image_size = 224;
  /// The smallest and the largest --image-size: without bounds of its own a network that averages over what
  /// is left of the image, one size where the first linear layer is made for it.
  int64_t min_image_size = 32;
  int64_t max_image_size = 4096;
  int64_t classes = kImageNetClasses;
  int default_batch = 32;
  /// Whose network and default batch this is.
  std::string source;
  std::unique_ptr<Model> (*create)(const ModelOptions& options) = nullptr;
};

/// All networks by name.
const Registry<ModelInfo>& registry();

/// Throws ConfigError unless the network `name` takes images of that size.
void check_image_size(std::string_view name, const ModelInfo& info, int64_t image_size);

/// What one image costs, found by running one image forward and counting in the blocks.
struct ModelCost {
  /// Multiply-adds of the forward pass (convolutions and linear layers).
  int64_t multiply_adds = 0;
  /// Bytes that the forward pass and the loss keep for the backward pass, the image among them, at the given
  /// precision.
  int64_t activation_bytes = 0;
};

/// Builds the network and runs it once, on the calling thread's threads: a fraction of a second.
ModelCost measure_cost(const ModelInfo& info, int64_t image_size, bool bf16);

/// The layers of a training step with batches of `batch` images, in the order in which they begin. Builds the
/// network and runs one image forward, on the calling thread's threads.
std::vector<kernels::Layer> list_layers(const ModelInfo& info, int64_t image_size, int64_t batch);

}  // namespace lockstep::models
