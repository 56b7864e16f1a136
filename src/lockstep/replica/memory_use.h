#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/fields.h"

namespace lockstep::replica {

/// Memory that one replica keeps from step to step and has within a step, in bytes.
struct MemoryUse {
  /// Including narrow copies of weights.
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t momenta = 0;
  /// Buffers for the exchange with other ranks.
  int64_t buffers = 0;
  /// The most that units which are gathered or not yet reduced took at a time; not kept.
  int64_t gathered = 0;
  /// All that a step has beside these at its most, activations above all; 0: not known.
  int64_t activations = 0;

  /// The most at a time.
  int64_t peak() const { return total() + gathered + activations; }
  /// What is kept.
  int64_t total() const { return parameters + gradients + momenta + buffers; }
  bool operator==(const MemoryUse&) const = default;

  LOCKSTEP_DESCRIBE(kOptional, parameters, gradients, momenta, buffers, gathered, activations)
};

/// Memory of a replica that keeps shards, in bytes.
struct ShardUse {
  /// Shards of the parameters and of the gradients; 0: whole ones are kept.
  int64_t parameters = 0;
  int64_t gradients = 0;
  /// The most that whole units of those took at a time in a step.
  int64_t most_gathered = 0;
};

/// Total size of the memory behind these tensors. Memory shared by several tensors counts once; undefined
/// tensors, and memory that is released (ReleasableMemory), count as 0.
inline int64_t storage_bytes(const std::vector<at::Tensor>& tensors) {
  std::set<const void*> seen;
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    const c10::Storage& storage = tensor.storage();
    if (storage.data() == nullptr) continue;
    if (seen.insert(storage.unsafeGetStorageImpl()).second) bytes += static_cast<int64_t>(storage.nbytes());
  }
  return bytes;
}

}  // namespace lockstep::replica
