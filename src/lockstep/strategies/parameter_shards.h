#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/accelerator.h"
#include "lockstep/replica/flat_memory.h"
#include "lockstep/replica/memory_use.h"
#include "lockstep/strategies/buckets.h"
#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {

/// Assigns tensors of the given sizes to ranks: one after the other, each to the rank with the fewest bytes
/// so far (the first one of these). Returns the owner of each tensor.
std::vector<int> assign_owners(const std::vector<int64_t>& bytes, int ranks);

/// Assigns the parameters of a replica as --parameter-owners says. Returns the owner of each parameter.
std::vector<int> choose_owners(const StrategyContext& context);

/// Parameters sorted by owner, so that each owner has one range of memory; within it, in the reverse order of
/// registration.
std::vector<size_t> order_by_owner(const std::vector<int>& owners);

/// The range that a rank owns in memory with the order of order_by_owner(); empty if it owns nothing.
replica::Range owned_range(const replica::FlatMemory& memory, const std::vector<int>& owners, int rank);

/// The owner of a bucket of plan_owned_buckets().
int owner_of(const Bucket& bucket, const std::vector<int>& owners);

/// Divides the range of each owner into buckets, and returns all of them in the order in which they become
/// ready: the parameter that was registered first is ready last, and so is its bucket.
std::vector<Bucket> plan_owned_buckets(const replica::FlatMemory& memory, const std::vector<int>& owners,
                                       int ranks, int64_t cap_bytes);

/// The variables that a rank owns, kept and updated in host memory while the replica computes on a GPU
/// (--parameter-device cpu): gradients are copied to the host, the host applies the optimizer, and new values
/// are copied back. For the training thread; must not outlive the flat memory and the accelerator.
class HostShard {
 public:
  /// Starts with the values of range `owned`.
  HostShard(const replica::FlatMemory& memory, replica::Range owned, replica::Accelerator& accelerator);

  /// Starts a copy of the gradients of a range within `owned`, after the work that the stream holds now. Does
  /// not wait.
  void take_gradients(replica::Range range);
  /// Applies all gradients taken since the last call, in that order, and starts copies of the new values to
  /// the flat memory. The host waits for the gradients. `first_step`: see FlatMemory::apply().
  void apply(const replica::SgdOptions& options, bool first_step);

  /// Saves the momenta.
  void save(replica::State& state) const;
  /// Also copies the values again from the flat memory.
  void restore(const replica::State& state);
  int64_t momentum_bytes() const { return static_cast<int64_t>(momenta_.nbytes()); }
  /// Size of values and gradients.
  int64_t buffer_bytes() const { return replica::storage_bytes({values_, gradients_}); }

 private:
  struct Taken {
    replica::Range range;
    /// Marks the end of the copy.
    replica::Accelerator::MarkPtr copied;
  };

  replica::Range within(replica::Range range) const {
    return {range.begin - owned_.begin, range.end - owned_.begin};
  }
  /// Waits for the copy.
  void fetch_values();

  const replica::FlatMemory& memory_;
  replica::Range owned_;
  replica::Accelerator& accelerator_;
  at::Tensor values_, gradients_, momenta_;
  std::vector<Taken> taken_;
};

}  // namespace lockstep::strategies
