#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"
#include "lockstep/kernels/layer.h"

namespace lockstep::kernels {

/// Observes the layers of a network while it runs (Context::layers). A block that consists of other blocks is
/// one layer; the addition of a residual belongs to none. Not thread-safe: belongs to the thread of the pass.
class LayerWatch {
 public:
  virtual ~LayerWatch() = default;

  /// Called before a block computes with `x`. Returns the tensor that the block computes with instead.
  virtual at::Tensor enter(const LayerForm& form, const at::Tensor& x) = 0;
  /// Called with the result of the block that was entered last and has not been left yet. Returns the tensor
  /// that the pass continues with.
  virtual at::Tensor leave(const at::Tensor& y) = 0;
};

/// Runs a block: `compute(x, context)`, observed by the watch of `context` if there is one. Blocks inside
/// this block are not observed.
template <typename Compute>
at::Tensor as_layer(const LayerForm& form, const at::Tensor& x, const Context& context,
                    const Compute& compute) {
  if (context.layers == nullptr) return compute(x, context);
  Context unwatched = context;
  unwatched.layers = nullptr;
  return context.layers->leave(compute(context.layers->enter(form, x), unwatched));
}

}  // namespace lockstep::kernels
