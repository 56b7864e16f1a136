#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/parameters.h"
#include "lockstep/replica/sgd.h"

namespace lockstep::replica {

/// A range of flat memory, in elements.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const { return end - begin; }
};

/// The parameters, gradients and momenta of a replica in three flat fp32 buffers on the parameters' device.
/// Tensors follow each other in a chosen order without gaps, on a GPU with zeros in between that align each:
///
///     values      | parameter order[0] | parameter order[1] | ... | padding |
///     gradients   | gradient  order[0] | gradient  order[1] | ... | padding |
///     momenta     | the same, or only the ranges of keep_momenta_of()       |
///
/// Parameters and their `.grad` become views with the parameter's own strides. Communicators and the
/// optimizer work on ranges of the buffers, regardless of the tensors in them. Not thread-safe; must not
/// outlive the Parameters.
class FlatMemory {
 public:
  /// Makes a tensor of so many fp32 numbers for gradients; undefined: LibTorch's allocator makes it.
  using GradientMemory = std::function<at::Tensor(int64_t count)>;

  /// `order`: a permutation of the parameters' indices (Parameters::trainable()). The buffers are padded with
  /// zeros to a multiple of `multiple_of` elements. `gradient_memory` may be empty. Throws Error if `order`
  /// is not a permutation, or if a parameter is not dense fp32 or is on another device than the first one.
  FlatMemory(Parameters& parameters, std::vector<size_t> order, int64_t multiple_of = 1,
             GradientMemory gradient_memory = {});
  /// Drops the parameters' gradients, whose memory may not outlive its maker.
  ~FlatMemory();
  FlatMemory(const FlatMemory&) = delete;
  FlatMemory& operator=(const FlatMemory&) = delete;

  /// Moves values, gradients and momenta to new buffers in another order. Throws Error after
  /// keep_momenta_of().
  void reorder(std::vector<size_t> order);

  /// Replaces the momenta by zeros for these ranges only (ascending, disjoint), for a replica that updates
  /// only a part of its parameters. apply() and momenta() then accept only ranges within one of these.
  void keep_momenta_of(std::vector<Range> ranges);

  const std::vector<size_t>& order() const { return order_; }
  /// The range of parameter `index`, with what aligns the next one.
  Range range_of(size_t index) const { return ranges_[index]; }
  /// Number of elements of all parameters with what aligns them, without and with the padding.
  int64_t count() const { return count_; }
  int64_t padded_count() const { return values_.numel(); }
  /// Size of the gradients that are in memory of `gradient_memory`.
  int64_t foreign_bytes() const { return foreign_ ? static_cast<int64_t>(gradients_.nbytes()) : 0; }
  int64_t momentum_bytes() const { return static_cast<int64_t>(momenta_.nbytes()); }

  /// One-dimensional views.
  at::Tensor values(Range range) const { return values_.slice(0, range.begin, range.end); }
  at::Tensor gradients(Range range) const { return gradients_.slice(0, range.begin, range.end); }
  at::Tensor momenta(Range range) const;

  /// The gradient of parameter `index`, shaped like it.
  at::Tensor gradient_view(size_t index) const { return gradient_views_[index]; }

  /// Applies the gradients of a range to its values. Call once per step for every element that this replica
  /// updates. `first_step`: see fused_sgd(). With a loss scale, all gradients that this replica applies in
  /// the step must be unscaled before the first call (see LossScale for what ranks must agree on).
  void apply(Range range, const SgdOptions& options, bool first_step);

  /// Saves the order and the momenta. restore() also restores the order, and throws Error if it cannot.
  void save(State& state) const;
  void restore(const State& state);

 private:
  void lay_out();
  at::Tensor new_gradients(int64_t count, const at::TensorOptions& options);

  Parameters& parameters_;
  std::vector<size_t> order_;
  int64_t multiple_of_;
  GradientMemory gradient_memory_;
  int64_t alignment_ = 1;
  int64_t count_ = 0;
  std::vector<Range> ranges_;
  at::Tensor values_, gradients_, momenta_;
  /// Whether gradients_ is of gradient_memory_.
  bool foreign_ = false;
  /// The ranges that momenta_ holds, one after the other; empty: everything.
  std::vector<Range> momentum_ranges_;
  std::vector<at::Tensor> gradient_views_;
};

}  // namespace lockstep::replica
