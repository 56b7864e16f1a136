#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::network_file {

/// The number format of a tensor's elements.
enum class Type { kFloat32, kFloat64, kFloat16, kBfloat16, kInt64, kInt32, kInt16, kInt8, kUint8, kBool };

/// A parameter or a buffer.
struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  /// In elements; the elements fill a range without gaps.
  std::vector<int64_t> strides;
  Type type = Type::kFloat32;
  /// Place of its first byte among all values.
  uint64_t position = 0;
  uint64_t bytes = 0;
  /// Buffers: whether a step changes it.
  bool changes = false;
};

/// An input or a target: one sample of it, and how random ones are drawn.
struct Sample {
  std::string name;
  /// Without the batch, which comes first.
  std::vector<int64_t> shape;
  Type type = Type::kFloat32;
  /// The layout of a batch of images.
  bool channels_last = false;
  /// Floating-point numbers: a normal distribution.
  double mean = 0;
  double deviation = 1;
  /// Whole numbers: from `low` to `high` - 1, all equally likely.
  int64_t low = 0;
  int64_t high = 2;
};

/// A traced step with a batch of a fixed size.
struct Graph {
  std::string name;
  int64_t batch = 0;
  /// "fp32", "bf16".
  std::string precision;
  /// Where its tensors are: "cpu" or "cuda". Any GPU of a machine will do.
  std::string device;
  /// Bytes that the forward pass keeps for the backward pass.
  int64_t activation_bytes = 0;
};

/// Batches of square images with a label each, as inputs other than `device` make them.
struct LabelledImages {
  int64_t channels = 0;
  int64_t size = 0;
  int64_t classes = 0;
};

/// The description of a network from a file (docs/your-network.md): everything but the values. A shared
/// object's network (models/plugin_model.h) has no graphs, and takes any batch and precision; a replayed
/// training (models/replayed_model.h) has the batch that was recorded.
struct NetworkFile {
  std::string path;
  std::string name;
  /// "the network 'mine', traced by torch.export".
  std::string origin;
  /// Identifies the content, values included; empty for all but traced networks.
  std::string hash;
  /// Versions that wrote the file.
  std::string torch_version;
  std::string lockstep_version;
  /// The name of a sample in tables, and how many of them a sample of the batch holds: 1 image, 128 tokens.
  std::string unit;
  int64_t units_per_sample = 1;
  /// Multiply-adds of the forward pass of one sample.
  int64_t multiply_adds = 0;
  bool channels_last = false;
  /// Whether a step draws random numbers: dropout.
  bool draws_random_numbers = false;
  /// Whether steps tell which parameters they are about to use; for networks with graphs only.
  bool announces_uses = false;
  std::vector<Tensor> parameters;
  std::vector<Tensor> buffers;
  std::vector<Sample> inputs;
  std::vector<Sample> targets;
  std::vector<Graph> graphs;

  int64_t parameter_count() const;
  /// Values of the largest parameter; 0 without any.
  int64_t largest_parameter() const;
  /// Shape and classes of batches of gray or color images with labels; empty for all others.
  std::optional<LabelledImages> labelled_images() const;
  /// Throws ConfigError that names the batches, precisions and devices that the file has.
  const Graph& graph(int64_t batch, const std::string& precision, const std::string& device) const;
  /// Whether there is one graph per size of a batch.
  bool has_fixed_batches() const { return !graphs.empty(); }
  /// Throws as graph() does, unless any batch will do.
  void check_step(int64_t batch, const std::string& precision, const std::string& device) const {
    if (has_fixed_batches()) graph(batch, precision, device);
  }
};

/// The entries of a network's file, which is an archive (models/network_archive.h).
class Entries {
 public:
  virtual ~Entries() = default;

  virtual bool has(const std::string& name) const = 0;
  /// Bytes of an entry. Throws Error if there is none of this name.
  virtual uint64_t size_of(const std::string& name) const = 0;
  /// The content of an entry. Throws Error, also for one of more than `most` bytes.
  virtual std::string read(const std::string& name, uint64_t most) const = 0;
};

/// The entry with the values of all tensors.
inline constexpr const char* kValues = "extra/lockstep.values";

/// Reads and checks a description, and each graph against it: its inputs and results, and that it consists of
/// PyTorch's tensor operations. The file may come from anywhere. Throws Error without the file's name.
NetworkFile read_description(const Entries& entries);

/// Bytes of one element.
int64_t bytes_of(Type type);

/// "float32", as PyTorch names it.
std::string name_of(Type type);

/// The type of a number of torch.export's.
std::optional<Type> type_of_number(int64_t number);

}  // namespace lockstep::network_file
