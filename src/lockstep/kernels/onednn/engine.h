#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include <ATen/core/Tensor.h>

namespace lockstep::kernels::onednn {

const dnnl::engine& engine();

/// The data type for a tensor of fp32 or bf16.
dnnl::memory::data_type type_of(at::ScalarType type);

/// The type in which an operation on `x` computes: bf16 with autocast, otherwise x's own type.
at::ScalarType computing_type(const at::Tensor& x);

/// The name of the layout of blocked images of this type.
dnnl::memory::format_tag tag_of(at::ScalarType type);

/// Describes the memory of an image, plain or blocked (image_layout.h).
dnnl::memory::desc image_desc(const at::Tensor& image);

/// Allocates uninitialized memory for `desc` with LibTorch's allocator, which keeps freed pages.
at::Tensor allocate(const dnnl::memory::desc& desc);

/// The tensor's memory, described by `desc`. The tensor must outlive the result.
dnnl::memory memory_of(const dnnl::memory::desc& desc, const at::Tensor& tensor);

using Arguments = std::unordered_map<int, dnnl::memory>;

/// Runs a primitive on the calling thread's OpenMP team and waits for it. `scratchpad`: the scratch memory
/// that the primitive needs; it comes from an arena of this thread, and the primitive must have been made
/// with user_scratchpad().
void run(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad, Arguments arguments);

/// Attributes that leave a primitive's scratch memory to run().
dnnl::primitive_attr user_scratchpad();

/// A primitive, made with user_scratchpad(), and its description.
template <typename Primitive>
class Operation {
 public:
  using Description = typename Primitive::primitive_desc;

  Operation() = default;
  Operation(Description description) : description_(std::move(description)), primitive_(description_) {}

  const Description* operator->() const { return &description_; }
  void run(Arguments arguments) const {
    onednn::run(primitive_, description_.scratchpad_desc(), std::move(arguments));
  }

 private:
  Description description_;
  Primitive primitive_;
};

/// The plans of a layer by the sizes and the type of its input. Null: oneDNN has no fast code for it.
template <typename Plan>
using Plans = std::map<std::vector<int64_t>, std::unique_ptr<Plan>>;

/// Returns the plan for input `x`; calls make() if it is the first one like that. `more`: other properties
/// that the plan depends on. Types that oneDNN does not implement on this processor have no plan.
template <typename Plan, typename Make>
const Plan* plan_for(Plans<Plan>& plans, const at::Tensor& x, const Make& make,
                     std::initializer_list<int64_t> more = {}) {
  std::vector<int64_t> key = x.sizes().vec();
  key.push_back(static_cast<int64_t>(x.scalar_type()));
  key.insert(key.end(), more);
  const auto [found, is_new] = plans.try_emplace(std::move(key));
  try {
    if (is_new) found->second = make();
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
  }
  return found->second.get();
}

/// Whether an implementation (impl_info_str) is oneDNN's reference code, which is hundreds of times slower
/// than its other code.
bool is_reference(const char* implementation);

// lockstep's own packing of a convolution's weights (weight_pairs.cpp), in place of a reorder.

/// Whether make_pairs() supports this: from fp32 with adjacent input channels to pairs of bf16,
/// without groups.
bool can_make_pairs(const dnnl::memory::desc& from, const dnnl::memory::desc& into);

/// into = bf16(from), rounded to nearest even. Uses the calling thread's OpenMP team.
void make_pairs(const dnnl::memory& from, const dnnl::memory& into);

/// Converts between layouts or types. Its primitives are made on first use and kept: making them anew in
/// every step took 2 % of it.
class Reorder {
 public:
  Reorder() = default;
  Reorder(dnnl::memory::desc from, dnnl::memory::desc into);

  const dnnl::memory::desc& from() const { return from_; }
  const dnnl::memory::desc& into() const { return into_; }
  /// Whether the layouts or types differ.
  bool changes() const { return from_ != into_; }

  /// into = scale * from, or into += scale * from.
  void operator()(const dnnl::memory& from, const dnnl::memory& into, double scale = 1,
                  bool add = false) const;

 private:
  struct Made {
    dnnl::reorder primitive;
    dnnl::memory::desc scratchpad;
  };
  Made make(bool scales, bool adds) const;

  dnnl::memory::desc from_, into_;
  /// Whether lockstep's own loops convert (make_pairs()).
  bool pairs_ = false;
  /// By whether it scales and whether it adds.
  mutable std::map<std::pair<bool, bool>, Made> made_;
};

/// A tensor in the layout that a primitive reads: the tensor itself, or a reordered copy.
class Read {
 public:
  Read(const Reorder& reorder, const at::Tensor& tensor);

  const dnnl::memory& memory() const { return memory_; }

 private:
  at::Tensor tensor_;
  dnnl::memory memory_;
};

/// The memory that a primitive writes instead of a tensor: the tensor itself, or memory that finish()
/// reorders into it.
class Written {
 public:
  /// The tensor becomes scale * the result, or += with `add`. `reorder` must outlive this.
  Written(const Reorder& reorder, at::Tensor tensor, double scale = 1, bool add = false);

  const dnnl::memory& memory() const { return memory_; }
  void finish();

 private:
  const Reorder& reorder_;
  at::Tensor tensor_;
  double scale_;
  bool add_;
  /// Undefined if the primitive writes to the tensor itself.
  at::Tensor apart_;
  dnnl::memory memory_;
};

}  // namespace lockstep::kernels::onednn
