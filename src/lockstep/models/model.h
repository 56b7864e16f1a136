#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/registry.h"
#include "lockstep/kernels/context.h"
#include "lockstep/network_file/network_file.h"
#include "lockstep/replica/parameters.h"

namespace lockstep::models {

/// Number of classes of the data sets that the networks were published for.
inline constexpr int64_t kImageNetClasses = 1000;
inline constexpr int64_t kCifar10Classes = 10;

/// The largest --image-size of networks that have no limit of their own.
inline constexpr int64_t kMaxImageSize = 4096;

/// The logits of an auxiliary classifier, and the weight of its loss.
struct AuxiliaryLogits {
  at::Tensor logits;
  double weight = 0;
};

/// The result of a forward pass.
struct Output {
  /// [batch, classes].
  at::Tensor logits;
  /// In the order of computation; empty outside of training.
  std::vector<AuxiliaryLogits> auxiliary = {};
};

/// Mean cross entropy over the batch, plus the weighted cross entropies of the auxiliary logits.
/// labels: [batch], int64.
at::Tensor cross_entropy(const Output& output, const at::Tensor& labels);

/// A network whose forward and backward passes are one program, with a loss of its own. Used by the thread
/// that trains the replica.
class WholeStep {
 public:
  virtual ~WholeStep() = default;

  /// Computes the loss of one micro-batch and its gradients. Each gradient goes to autograd the moment it is
  /// final, so that hooks of its parameter run while the backward pass goes on, and `.grad` is added to, as
  /// in Tensor::backward().
  ///
  /// `samples`: all inputs, then all targets. `scale`: factor of the loss in the backward pass, an fp32
  /// scalar on the device. `forward_done` is called between the two passes. Returns the mean loss without the
  /// factor, an fp32 scalar.
  virtual at::Tensor run(const std::vector<at::Tensor>& samples, const kernels::Context& context,
                         const at::Tensor& scale, const std::function<void()>& forward_done) = 0;
};

/// A network: trainable tensors and a forward pass, built from the blocks in kernels/.
/// Not thread safe: a replica belongs to one thread.
class Model {
 public:
  virtual ~Model() = default;

  /// images: [batch, channels, size, size] fp32, in the model's memory format.
  virtual Output forward(const at::Tensor& images, const kernels::Context& context) = 0;

  /// The step of a network that has no forward pass of its own; null: forward() and autograd compute it.
  virtual WholeStep* whole_step() { return nullptr; }

  const replica::Parameters& parameters() const { return parameters_; }
  replica::Parameters& parameters() { return parameters_; }

 protected:
  explicit Model(replica::Parameters parameters) : parameters_(std::move(parameters)) {}

  replica::Parameters parameters_;
};

struct ModelOptions {
  /// Empty: weights are 0, for a network that is only to be timed or counted.
  std::optional<uint64_t> seed = 1;
  at::MemoryFormat memory_format = at::MemoryFormat::ChannelsLast;
  /// Choose the graph of a network's file, and are of no use to others.
  int64_t batch = 0;
  std::string precision = "fp32";
  std::string device = "cpu";
};

/// Properties of a network that are known before it is built.
struct ModelInfo {
  /// Number of trainable values, as published; a test compares it with the built network.
  int64_t parameters = 0;
  /// The tensors that these are in, and the values of the largest; tested likewise.
  int64_t parameter_tensors = 0;
  int64_t largest_parameter = 0;
  /// Multiply-adds of the forward pass of one image of image_size in training, including auxiliary
  /// classifiers; tested likewise.
  int64_t multiply_adds = 0;
  int64_t channels = 3;
  int64_t image_size = 224;
  /// The smallest and the largest --image-size. A network that averages over the remaining image has no upper
  /// limit of its own; one whose first linear layer fixes the size has a single one.
  int64_t min_image_size = 32;
  int64_t max_image_size = kMaxImageSize;
  int64_t classes = kImageNetClasses;
  int default_batch = 32;
  /// Origin of the network's structure and of its default batch.
  std::string source;
  std::function<std::unique_ptr<Model>(const ModelOptions& options)> create = {};
  /// The description of a network from a file, which has no images or classes; null for all others.
  std::shared_ptr<const network_file::NetworkFile> file = {};
};

/// All networks by name.
const Registry<ModelInfo>& registry();

/// Whether a name is that of a file with a network: mine.pt2, ./libmine.so:mine (models/plugin_model.h), or
/// replay:run.json (models/replayed_model.h).
bool is_from_file(const std::string& name);

/// The network of registry(), or of the file if is_from_file(name). A file is read once; what it was then
/// holds for the whole process. Thread-safe. Throws ConfigError.
const ModelInfo& info_of(const std::string& name);

/// Throws ConfigError unless network `name` takes images of this size.
void check_image_size(std::string_view name, const ModelInfo& info, int64_t image_size);

/// The cost of one image, counted by the blocks while one image runs forward.
struct ModelCost {
  /// Multiply-adds of the forward pass (convolutions and linear layers).
  int64_t multiply_adds = 0;
  /// Bytes that the forward pass and the loss keep for the backward pass at the given precision, including
  /// the image.
  int64_t activation_bytes = 0;
};

/// Builds the network and runs it once, using the calling thread's OpenMP team; takes a fraction of a second.
ModelCost measure_cost(const ModelInfo& info, int64_t image_size, bool bf16);

}  // namespace lockstep::models
