#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/parameters.h"
#include "lockstep/replica/sgd.h"

namespace lockstep::replica {

/// A stretch of flat memory, in elements.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const { return end - begin; }
};

/// The parameters, gradients and momenta of a replica, each in one flat fp32 buffer on the parameters'
/// device, tensor after tensor in a chosen order without gaps. Parameters and their `.grad` become views with
/// the parameter's own strides, so a stretch of a buffer is what a communicator sends and what the optimizer
/// updates, whatever tensors lie in it. A replica that updates only a part of its parameters keeps the
/// momenta of that part only. Not thread safe; must not outlive the Parameters.
class FlatMemory {
 public:
  /// `order`: the parameters' indices (Parameters::trainable), each once. Throws Error for anything else, and
  /// for a parameter that is not dense fp32, or on another device than the first. The buffers are padded with
  /// zeros to a multiple of `multiple_of` elements.
  FlatMemory(Parameters& parameters, std::vector<size_t> order, int64_t multiple_of = 1);

  /// Lays everything out anew, in other memory; values, gradients and momenta go along. Throws Error once
  /// there are momenta of a part only.
  void reorder(std::vector<size_t> order);

  /// From now on there are momenta of these ranges only (ascending, apart from each other), all zero; apply
  /// and momenta() take nothing that is not within one of them.
  void keep_momenta_of(std::vector<Range> ranges);

  const std::vector<size_t>& order() const { return order_; }
  /// Where parameter `index` lies.
  Range range_of(size_t index) const { return ranges_[index]; }
  /// Elements of all parameters, without and with the padding.
  int64_t count() const { return parameters_.count(); }
  int64_t padded_count() const { return values_.numel(); }
  int64_t momentum_count() const { return momenta_.numel(); }
  int64_t momentum_bytes() const { return static_cast<int64_t>(momenta_.nbytes()); }

  /// One-dimensional views.
  at::Tensor values(Range range) const { return values_.slice(0, range.begin, range.end); }
  at::Tensor gradients(Range range) const { return gradients_.slice(0, range.begin, range.end); }
  at::Tensor momenta(Range range) const;

  /// The gradient of parameter `index`, shaped like it.
  at::Tensor gradient_view(size_t index) const { return gradient_views_[index]; }

  /// Applies the gradients of a range to its values. Every element is to be updated once in a step;
  /// `first_step`: the momentum begins with the gradient. With a loss scale all gradients that this replica
  /// applies in the step have to be unscaled before (LossScale says who else has to be asked).
  void apply(Range range, const SgdOptions& options, bool first_step);

  /// Order and momenta. Restoring orders as it was; throws Error where that cannot be.
  void save(State& state) const;
  void restore(const State& state);

 private:
  void lay_out();

  Parameters& parameters_;
  std::vector<size_t> order_;
  int64_t multiple_of_;
  std::vector<Range> ranges_;
  at::Tensor values_, gradients_, momenta_;
  /// What momenta_ holds, one after the other; empty: everything.
  std::vector<Range> momentum_ranges_;
  std::vector<at::Tensor> gradient_views_;
};

}  // namespace lockstep::replica
