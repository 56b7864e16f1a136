#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"
#include "lockstep/kernels/layer.h"

namespace lockstep::kernels {

/// Sees the layers of a network while it runs, when Context::layers names one. A block that is made of others
/// is one layer; what a residual block adds is not part of it. Not thread safe: it belongs to the thread of
/// the pass.
class LayerWatch {
 public:
  virtual ~LayerWatch() = default;

  /// `x` is about to go into a block. Returns what the block is to compute with.
  virtual at::Tensor enter(const LayerForm& form, const at::Tensor& x) = 0;
  /// `y` came out of the block that was entered last and has not been left yet. Returns what goes on from it.
  virtual at::Tensor leave(const at::Tensor& y) = 0;
};

/// What every block does its work in: `compute(x, context)`, seen by the watch of `context` if there is one.
template <typename Compute>
at::Tensor as_layer(const LayerForm& form, const at::Tensor& x, const Context& context,
                    const Compute& compute) {
  if (context.layers == nullptr) return compute(x, context);
  Context unwatched = context;
  unwatched.layers = nullptr;
  return context.layers->leave(compute(context.layers->enter(form, x), unwatched));
}

/// Writes down the layers of one forward pass in the order in which they begin. Layers without a name get one
/// from their kind and how many of it there were: "max_pool2".
class LayerList : public LayerWatch {
 public:
  at::Tensor enter(const LayerForm& form, const at::Tensor& x) override;
  at::Tensor leave(const at::Tensor& y) override;

  const std::vector<Layer>& layers() const { return layers_; }

 private:
  std::vector<Layer> layers_;
  std::vector<size_t> open_;
};

}  // namespace lockstep::kernels
