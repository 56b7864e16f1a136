#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::replica {

/// What one replica keeps from step to step, in bytes; activations come on top.
struct MemoryUse {
  /// With narrower copies of them.
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t momenta = 0;
  /// What is copied to for the exchange with other ranks.
  int64_t buffers = 0;

  int64_t total() const { return parameters + gradients + momenta + buffers; }
  bool operator==(const MemoryUse&) const = default;
};

/// Of the memory that these tensors lie in, each piece once, whatever number of them shares it; undefined
/// tensors have none.
int64_t storage_bytes(const std::vector<at::Tensor>& tensors);

}  // namespace lockstep::replica
