#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/memory_use.h"
#include "lockstep/replica/parameters.h"

namespace lockstep::replica {

/// Copies of a network's weights in a narrower type. While they exist, blocks compute with them; the
/// parameters remain the fp32 masters that the optimizer updates. Autocast makes the same copies one by one
/// in every forward pass; this class makes them in one pass. Not thread-safe; must not outlive the
/// Parameters.
class WeightCopies {
 public:
  /// Copies the weights whose narrow_copy() a block uses, on their device.
  WeightCopies(Parameters& parameters, at::ScalarType dtype);
  ~WeightCopies();
  WeightCopies(const WeightCopies&) = delete;
  WeightCopies& operator=(const WeightCopies&) = delete;

  /// Rounds the current weights. Call in every step, after the update and before the forward pass.
  void refresh();

  int64_t bytes() const { return storage_bytes(copies_); }

 private:
  Parameters& parameters_;
  std::vector<size_t> indices_;
  std::vector<at::Tensor> copies_;
};

}  // namespace lockstep::replica
