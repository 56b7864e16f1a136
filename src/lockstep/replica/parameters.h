#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/gradient_place.h"

namespace lockstep::replica {

/// How a parameter's first values are drawn, always from (seed, name).
struct Init {
  enum class Kind { kConstant, kNormal, kUniform };
  Kind kind = Kind::kConstant;
  /// The constant, the standard deviation, or the bound of the symmetric interval.
  double value = 0;

  static Init constant(double value) { return {Kind::kConstant, value}; }
  static Init normal(double standard_deviation) { return {Kind::kNormal, standard_deviation}; }
  static Init uniform(double bound) { return {Kind::kUniform, bound}; }
};

struct NamedTensor {
  std::string name;
  at::Tensor value;
};

/// The learned tensors of one network and its buffers (running statistics), by torchvision's names and in the
/// order in which torchvision registers them: that order is what bucket plans start from.
///
/// The tensors handed out are shared with the blocks that asked for them, so whoever gives one new storage
/// (`set_data`, say to lay all parameters out in one flat buffer) changes what the network computes with.
/// Not thread safe; one replica belongs to one thread.
class Parameters {
 public:
  /// `memory_format` applies to 4-dimensional tensors. The values do not depend on it.
  Parameters(uint64_t seed, at::MemoryFormat memory_format);

  /// A trainable fp32 leaf with requires_grad set. Throws Error when the name is taken.
  at::Tensor add(const std::string& name, at::IntArrayRef shape, Init init);
  /// A tensor that is not trained, filled with `value`. Throws Error when the name is taken.
  at::Tensor add_buffer(const std::string& name, at::IntArrayRef shape, double value,
                        at::ScalarType dtype = at::kFloat);

  /// For the block that uses trainable parameter `name` once per forward pass and writes its gradient where
  /// this says. Throws Error for an unknown name.
  std::shared_ptr<const GradientPlace> gradient_place(const std::string& name);
  /// The parameters for whose gradients a block has asked where to write them: indices into trainable().
  std::vector<size_t> placeable_gradients() const;
  /// From the next forward pass on; `index`: one of these.
  void place_gradient(size_t index, GradientPlace place);

  /// For the block that can compute with a narrower copy of trainable parameter `name`: where that is,
  /// undefined while there is none. Throws Error for an unknown name.
  std::shared_ptr<const at::Tensor> narrow_copy(const std::string& name);
  /// The parameters for a copy of which a block has asked: indices into trainable().
  std::vector<size_t> narrowable() const;
  /// `index`: one of these. Whoever gives one keeps it up to date (WeightCopies).
  void set_narrow_copy(size_t index, at::Tensor copy);

  const std::vector<NamedTensor>& trainable() const { return trainable_; }
  const std::vector<NamedTensor>& buffers() const { return buffers_; }
  /// All of them move, and those handed out with them. Before anybody has laid them out otherwise.
  void move_to(at::Device device);

  /// Number of trainable values.
  int64_t count() const;
  /// The trainable tensors, in order.
  std::vector<at::Tensor> tensors() const;
  at::MemoryFormat memory_format() const { return memory_format_; }

 private:
  void check_unused(const std::string& name) const;
  size_t index_of(const std::string& name) const;
  at::Tensor in_memory_format(const at::Tensor& values) const;

  uint64_t seed_;
  at::MemoryFormat memory_format_;
  std::vector<NamedTensor> trainable_;
  std::vector<NamedTensor> buffers_;
  /// As trainable_; null where nobody asked for one.
  std::vector<std::shared_ptr<GradientPlace>> gradient_places_;
  std::vector<std::shared_ptr<at::Tensor>> narrow_copies_;
};

}  // namespace lockstep::replica
