#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/parameters.h"
#include "lockstep/replica/releasable_memory.h"
#include "lockstep/replica/sgd.h"

namespace lockstep::replica {

/// A range of flat memory, in elements.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const { return end - begin; }
};

/// Parts of flat memory that can be released each on its own (FlatMemory::take()).
struct Units {
  /// Numbers of parameters, in the order of the memory; empty: the memory is not divided.
  std::vector<size_t> sizes;
  /// Whether the units of gradients are present at the start.
  bool with_gradients = true;
  /// Called before an operation uses a tensor of a unit (ReleasableMemory::OnUse).
  std::function<void(size_t unit, uint64_t operation)> on_use_of_values, on_use_of_gradients;
};

/// The parameters, gradients and momenta of a replica in three flat fp32 buffers on the parameters' device.
/// Tensors follow each other in a chosen order without gaps, on a GPU with zeros in between that align each:
///
///     values      | parameter order[0] | parameter order[1] | ... | padding |
///     gradients   | gradient  order[0] | gradient  order[1] | ... | padding |
///     momenta     | the same, or only the ranges of keep_momenta_of()       |
///
/// Parameters and their `.grad` become views with the parameter's own strides. Communicators and the
/// optimizer work on ranges of the buffers, regardless of the tensors in them. Memory that is divided in
/// units has a buffer for each, with padding of its own; elements are numbered on from unit to unit, and no
/// range may cross a border. Not thread-safe; must not outlive the Parameters.
class FlatMemory {
 public:
  /// Makes a tensor of so many fp32 numbers for gradients; undefined: LibTorch's allocator makes it.
  using GradientMemory = std::function<at::Tensor(int64_t count)>;

  /// `order`: a permutation of the parameters' indices (Parameters::trainable()). The buffers are padded with
  /// zeros to a multiple of `multiple_of` elements. `gradient_memory` may be empty. Throws Error if `order`
  /// is not a permutation, or if a parameter is not dense fp32 or is on another device than the first one.
  /// Memory in units has no momenta before keep_momenta_of().
  FlatMemory(Parameters& parameters, std::vector<size_t> order, int64_t multiple_of = 1,
             GradientMemory gradient_memory = {}, Units units = {});
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
  int64_t padded_count() const { return units_.back().range.end; }
  /// Size of the gradients that are in memory of `gradient_memory`.
  int64_t foreign_bytes() const;
  int64_t momentum_bytes() const { return static_cast<int64_t>(momenta_.nbytes()); }

  /// One-dimensional views.
  at::Tensor values(Range range) const { return part_of(&Unit::values, range); }
  at::Tensor gradients(Range range) const { return part_of(&Unit::gradients, range); }
  at::Tensor momenta(Range range) const;

  /// Gives back the memory of released units that was kept for the next ones.
  void drop_spare() { spare_ = {}; }

  size_t unit_count() const { return units_.size(); }
  /// The elements of a unit with its padding.
  Range unit(size_t index) const { return units_[index].range; }
  /// The memory of a unit, where memory is divided and LibTorch's allocator made it.
  ReleasableMemory& memory_of_values(size_t unit) { return *units_[unit].memory_of_values; }
  ReleasableMemory& memory_of_gradients(size_t unit) { return *units_[unit].memory_of_gradients; }

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
  struct Unit {
    Range range;
    at::Tensor values, gradients;
    std::unique_ptr<ReleasableMemory> memory_of_values, memory_of_gradients;
  };

  void lay_out();
  void add_unit(Range range, const at::TensorOptions& options);
  at::Tensor part_of(at::Tensor Unit::*memory, Range range) const;

  Parameters& parameters_;
  std::vector<size_t> order_;
  int64_t multiple_of_;
  GradientMemory gradient_memory_;
  int64_t alignment_ = 1;
  int64_t count_ = 0;
  std::vector<Range> ranges_;
  Units division_;
  SpareMemory spare_;
  /// At least one.
  std::vector<Unit> units_;
  at::Tensor momenta_;
  /// Whether gradients are of gradient_memory_.
  bool foreign_ = false;
  /// The ranges that momenta_ holds, one after the other; empty: everything.
  std::vector<Range> momentum_ranges_;
  std::vector<at::Tensor> gradient_views_;
};

}  // namespace lockstep::replica
