#pragma once

#include <map>
#include <unordered_map>
#include <utility>

#include <oneapi/dnnl/dnnl.hpp>

#include <ATen/core/Tensor.h>

namespace lockstep::kernels::onednn {

const dnnl::engine& engine();

/// fp32 or bf16.
dnnl::memory::data_type type_of(at::ScalarType type);

/// What an operation on `x` computes with: bf16 where autocast is on, x's own type elsewhere.
at::ScalarType computing_type(const at::Tensor& x);

/// A dense image, plain or blocked (image_layout.h), or undefined strides: as the tensor lies in memory.
dnnl::memory::desc image_desc(const at::Tensor& image);

/// Memory for what `desc` describes, without values; from LibTorch's allocator, which keeps pages.
at::Tensor allocate(const dnnl::memory::desc& desc);

/// The tensor's memory seen as `desc`. The tensor has to outlive it.
dnnl::memory memory_of(const dnnl::memory::desc& desc, const at::Tensor& tensor);

using Arguments = std::unordered_map<int, dnnl::memory>;

/// Runs a primitive on the calling thread's team until it is done, with scratch memory from an arena of this
/// thread. `scratchpad`: what the primitive asks for; made with user_scratchpad().
void run(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad, Arguments arguments);

dnnl::primitive_attr user_scratchpad();

/// Whether an implementation (impl_info_str) is oneDNN's reference code, hundreds of times slower than the
/// rest.
bool is_reference(const char* implementation);

/// From one layout or type to another. Its primitives are made when they are first needed, and kept.
class Reorder {
 public:
  Reorder() = default;
  Reorder(dnnl::memory::desc from, dnnl::memory::desc into);

  const dnnl::memory::desc& from() const { return from_; }
  const dnnl::memory::desc& into() const { return into_; }
  /// Whether it does more than to copy.
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
  /// Whether own loops do it (weight_pairs.h).
  bool pairs_ = false;
  /// By whether it scales and whether it adds.
  mutable std::map<std::pair<bool, bool>, Made> made_;
};

/// A tensor as a primitive reads it: itself, or a reordered copy.
class Read {
 public:
  Read(const Reorder& reorder, const at::Tensor& tensor);

  const dnnl::memory& memory() const { return memory_; }

 private:
  at::Tensor tensor_;
  dnnl::memory memory_;
};

/// What a primitive writes for a tensor: itself, or what finish() brings there.
class Written {
 public:
  /// The tensor becomes scale * what is written, or that is added to it. `reorder` has to outlive this.
  Written(const Reorder& reorder, at::Tensor tensor, double scale = 1, bool add = false);

  const dnnl::memory& memory() const { return memory_; }
  void finish();

 private:
  const Reorder& reorder_;
  at::Tensor tensor_;
  double scale_;
  bool add_;
  /// Undefined where the primitive writes into the tensor.
  at::Tensor apart_;
  dnnl::memory memory_;
};

}  // namespace lockstep::kernels::onednn
