#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::replica {

/// The distribution of a parameter's initial values, which are drawn from (seed, name).
struct Init {
  enum class Kind { kConstant, kNormal, kUniform };
  Kind kind = Kind::kConstant;
  /// The constant, the standard deviation, or the bound of the symmetric interval.
  double value = 0;

  static Init constant(double value) { return {Kind::kConstant, value}; }
  static Init normal(double standard_deviation) { return {Kind::kNormal, standard_deviation}; }
  static Init uniform(double bound) { return {Kind::kUniform, bound}; }
};

/// A place for the gradient of a parameter, so that the backward pass need not leave it in memory of its own
/// that is copied later. A block that can write there asks for its parameter's place
/// (Parameters::gradient_place()); a strategy that keeps gradients says where it is.
struct GradientPlace {
  /// Shaped like the parameter, fp32. Undefined: there is no place, and autograd keeps the gradient.
  at::Tensor tensor;
  /// The block writes the gradient multiplied by this.
  double scale = 1;
  /// Whether the block adds to the tensor instead of overwriting it.
  bool add = false;

  /// This place, or new memory if there is none.
  GradientPlace or_new(const at::Tensor& parameter) const;
};

/// Takes the gradient of a narrow copy the moment it is final, in its narrow type, in place of the
/// parameter's own. Empty: the gradient is widened and goes the way of all others.
using NarrowGradientSink = std::function<void(const at::Tensor& gradient)>;

struct NamedTensor {
  std::string name;
  at::Tensor value;
};

/// The trainable tensors of a network and its buffers (running statistics), with torchvision's names and in
/// the order in which torchvision registers them; bucket plans start from this order.
///
/// Tensors are shared with the blocks that registered them: giving one new storage (`set_data()`, for example
/// to move all parameters to a flat buffer) changes what the network computes with. Not thread-safe; a
/// replica belongs to one thread.
class Parameters {
 public:
  /// `memory_format` applies to 4-dimensional tensors. Initial values do not depend on it. Without a seed all
  /// that are drawn are 0.
  Parameters(std::optional<uint64_t> seed, at::MemoryFormat memory_format);

  /// Adds a trainable fp32 leaf with requires_grad set. Throws Error if the name is taken.
  at::Tensor add(const std::string& name, at::IntArrayRef shape, Init init);
  /// Adds `values` themselves, fp32, as a trainable leaf in their own layout.
  void add(const std::string& name, at::Tensor values);
  /// Adds a tensor that is not trained, filled with `value`. Throws Error if the name is taken.
  at::Tensor add_buffer(const std::string& name, at::IntArrayRef shape, double value,
                        at::ScalarType dtype = at::kFloat);
  /// Adds `values` themselves, in their own layout.
  void add_buffer(const std::string& name, at::Tensor values);

  /// The place for the gradient of trainable parameter `name`. For the block that uses the parameter once per
  /// forward pass and writes its gradient there. Throws Error for an unknown name.
  std::shared_ptr<const GradientPlace> gradient_place(const std::string& name);
  /// Indices into trainable() of the parameters whose gradient_place() a block uses.
  std::vector<size_t> placeable_gradients() const;
  /// Sets the place for the gradient of one of these, from the next forward pass on.
  void place_gradient(size_t index, GradientPlace place);

  /// The narrow copy of trainable parameter `name`; undefined while there is none. For the block that can
  /// compute with it. Throws Error for an unknown name.
  std::shared_ptr<const at::Tensor> narrow_copy(const std::string& name);
  /// Where the gradient of that copy goes. For the same block, which asks in every backward pass.
  std::shared_ptr<const NarrowGradientSink> narrow_gradient_sink(const std::string& name);
  /// Indices into trainable() of the parameters whose narrow_copy() a block uses.
  std::vector<size_t> narrowable() const;
  /// Sets the copy of one of these. The caller keeps it up to date (WeightCopies).
  void set_narrow_copy(size_t index, at::Tensor copy);
  /// Sets where the gradient of one of these goes.
  void set_narrow_gradient_sink(size_t index, NarrowGradientSink sink);

  const std::vector<NamedTensor>& trainable() const { return trainable_; }
  const std::vector<NamedTensor>& buffers() const { return buffers_; }
  /// Moves all tensors, including those that blocks share. Call before anything gave them other storage.
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

  std::optional<uint64_t> seed_;
  at::MemoryFormat memory_format_;
  std::vector<NamedTensor> trainable_;
  std::vector<NamedTensor> buffers_;
  /// In the order of trainable_; null if no block uses it.
  std::vector<std::shared_ptr<GradientPlace>> gradient_places_;
  std::vector<std::shared_ptr<at::Tensor>> narrow_copies_;
  std::vector<std::shared_ptr<NarrowGradientSink>> narrow_gradient_sinks_;
};

}  // namespace lockstep::replica
