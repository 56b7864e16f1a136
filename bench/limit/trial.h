#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "limit.h"

namespace lockstep::limit {

/// oneDNN's engine for the CPU.
const dnnl::engine& processor();

/// Memory mapped directly from the system, so that measuring leaves the process's heap unchanged. Every page
/// has been written once.
class Pages {
 public:
  /// Throws Error if there is not enough memory.
  explicit Pages(size_t bytes);
  ~Pages();
  Pages(Pages&& other) noexcept;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  Pages& operator=(Pages&&) = delete;

  void* data() const { return data_; }

 private:
  void* data_;
  size_t bytes_;
};

/// One way to compute something: a sequence of primitives, oneDNN's or lockstep's, with their own operands.
class Trial {
 public:
  using Operands = std::unordered_map<int, dnnl::memory>;

  /// Adds an operand, filled with small random values or, with `ones`, values around 1 (variances, scales).
  dnnl::memory operand(const dnnl::memory::desc& desc, bool ones = false);

  /// Appends a primitive of oneDNN.
  template <typename Descriptor>
  void add(const Descriptor& descriptor, const dnnl::primitive& primitive, Operands operands) {
    note(descriptor.impl_info_str(), operands);
    steps_.push_back([primitive, operands = std::move(operands)](dnnl::stream& stream) {
      primitive.execute(stream, operands);
    });
  }
  /// Appends one of lockstep's kernels. The operands have memory when it runs.
  void add(const std::string& implementation, std::function<void()> compute, const Operands& operands);

  /// Total size of the operands; an operand of several primitives counts once for each.
  int64_t bytes() const { return bytes_; }
  const std::string& implementation() const { return implementation_; }
  /// Allocates the operands that have no memory yet. Call before the first run.
  void allocate();
  /// Frees the operands' memory. Call after the last run.
  void release();
  void run(dnnl::stream& stream) const;

  /// Whether the other trial has the same implementation and operands of the same layouts.
  bool equals(const Trial& other) const;

 private:
  using Step = std::function<void(dnnl::stream& stream)>;

  void note(const std::string& implementation, const Operands& operands);

  struct Operand {
    dnnl::memory memory;
    bool ones;
  };

  std::vector<Pages> pages_;
  std::vector<Operand> operands_;
  std::vector<Step> steps_;
  std::string implementation_;
  int64_t bytes_ = 0;
};

/// A memory layout of images, for example channels last.
struct Layout {
  const char* name;
  dnnl::memory::format_tag tag;
};

/// Layouts for primitives that use the layout of their operands.
const std::vector<Layout>& plain_layouts();
/// The same and "any", for primitives that can choose a layout themselves.
const std::vector<Layout>& layouts_or_any();
/// Layouts of the matrices of a linear layer.
const std::vector<Layout>& matrix_layouts();

/// Sets up a trial for one layout. Throws dnnl::error if there is no implementation.
using Prepare = std::function<void(Trial& trial, dnnl::memory::format_tag tag)>;

/// Tries all ways in all layouts and returns the fastest. Throws Error if there is none.
PartLimit measure_best(Work work, Direction direction, const std::vector<Layout>& layouts,
                       const std::vector<Prepare>& ways, const LimitOptions& options);

// The parts of each kind of layer. Every function appends what it measured to `parts`.

void add_convolution(std::vector<PartLimit>& parts, const Layer& layer, const LimitOptions& options);
/// Batch normalization of the layer's output, with the addition and the ReLU that follow it.
void add_norm(std::vector<PartLimit>& parts, const Layer& layer, const LimitOptions& options);
/// The backward pass of a ReLU that is fused into the forward pass of the operation before it.
void add_relu_backward(std::vector<PartLimit>& parts, const Layer& layer, const LimitOptions& options);
void add_pool(std::vector<PartLimit>& parts, const Layer& layer, const LimitOptions& options);
void add_response_norm(std::vector<PartLimit>& parts, const Layer& layer, const LimitOptions& options);
void add_linear(std::vector<PartLimit>& parts, const Layer& layer, const LimitOptions& options);

/// The data type of images, gradients and weights.
inline dnnl::memory::data_type value_type(const LimitOptions& options) {
  return options.bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// Appends the layer's ReLU, if it has one and no normalization, to a primitive.
dnnl::primitive_attr ending_of(const Layer& layer);

}  // namespace lockstep::limit
