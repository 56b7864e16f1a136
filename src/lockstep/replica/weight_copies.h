#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/parameters.h"

namespace lockstep::replica {

/// Copies of a network's weights in a narrower type, which blocks compute with while these exist: the
/// parameters remain the fp32 masters that the optimizer updates. Autocast makes the same copies, one after
/// the other in every forward pass; here one pass over all of them does. Not thread-safe; must not outlive
/// the Parameters.
class WeightCopies {
 public:
  /// Of the weights that blocks have asked a copy of (Parameters::narrow_copy), where these lie.
  WeightCopies(Parameters& parameters, at::ScalarType dtype);
  ~WeightCopies();
  WeightCopies(const WeightCopies&) = delete;
  WeightCopies& operator=(const WeightCopies&) = delete;

  /// Rounds the weights as they are now. In every step, after what updates them and before the forward pass.
  void refresh();

  int64_t bytes() const;

 private:
  Parameters& parameters_;
  std::vector<size_t> indices_;
  std::vector<at::Tensor> copies_;
};

}  // namespace lockstep::replica
