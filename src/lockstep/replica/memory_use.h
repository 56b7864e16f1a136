#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/fields.h"

namespace lockstep::replica {

/// Memory that one replica keeps from step to step, in bytes; activations not included.
struct MemoryUse {
  /// Including narrow copies of weights.
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t momenta = 0;
  /// Buffers for the exchange with other ranks.
  int64_t buffers = 0;

  int64_t total() const { return parameters + gradients + momenta + buffers; }
  bool operator==(const MemoryUse&) const = default;

  LOCKSTEP_DESCRIBE(kOptional, parameters, gradients, momenta, buffers)
};

/// Total size of the memory behind these tensors. Memory shared by several tensors counts once, undefined
/// tensors count as 0.
inline int64_t storage_bytes(const std::vector<at::Tensor>& tensors) {
  std::set<const void*> seen;
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    const c10::Storage& storage = tensor.storage();
    if (seen.insert(storage.unsafeGetStorageImpl()).second) bytes += static_cast<int64_t>(storage.nbytes());
  }
  return bytes;
}

}  // namespace lockstep::replica
