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

/// The parameters, gradients and momenta of a replica, each in one flat fp32 buffer, tensor after tensor in a
/// chosen order without gaps. Parameters and their `.grad` become views with the parameter's own strides, so
/// a stretch of a buffer is what a communicator sends and what the optimizer updates, whatever tensors lie in
/// it. Not thread safe; must not outlive the Parameters.
class FlatMemory {
 public:
  /// `order`: the parameters' indices (Parameters::trainable), each once. Throws Error for anything else, and
  /// for a parameter that is not dense fp32.
  FlatMemory(Parameters& parameters, std::vector<size_t> order);

  /// Lays everything out anew; values, gradients and momenta go along.
  void reorder(std::vector<size_t> order);

  const std::vector<size_t>& order() const { return order_; }
  /// Where parameter `index` lies.
  Range range_of(size_t index) const { return ranges_[index]; }
  int64_t count() const { return values_.numel(); }

  /// One-dimensional views.
  at::Tensor values(Range range) const { return values_.slice(0, range.begin, range.end); }
  at::Tensor gradients(Range range) const { return gradients_.slice(0, range.begin, range.end); }
  at::Tensor momenta(Range range) const { return momenta_.slice(0, range.begin, range.end); }

  /// The gradient of parameter `index`, shaped like it.
  at::Tensor gradient_view(size_t index) const { return gradient_views_[index]; }

  /// Applies the gradients of a range to its values. Every element is to be updated once in a step;
  /// `first_step`: the momentum begins with the gradient.
  void apply(Range range, const SgdOptions& options, bool first_step);

 private:
  void lay_out();

  Parameters& parameters_;
  std::vector<size_t> order_;
  std::vector<Range> ranges_;
  at::Tensor values_, gradients_, momenta_;
  std::vector<at::Tensor> gradient_views_;
};

}  // namespace lockstep::replica
