#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/accelerator.h"
#include "lockstep/replica/flat_memory.h"
#include "lockstep/replica/memory_use.h"

namespace lockstep::strategies {

/// The stretch of the variables that a rank owns, kept and updated in host memory although the replica
/// computes on a GPU (--parameter-device cpu): gradients come over, the host applies the optimizer, and the
/// new values go back. Used by the training thread; the flat memory and the accelerator outlive it.
class HostShard {
 public:
  /// Begins with the values of that stretch. Without an accelerator the flat memory is the host's, too.
  HostShard(const replica::FlatMemory& memory, replica::Range owned, replica::Accelerator* accelerator);

  /// Starts to copy the gradients of a range within the stretch, after what the stream holds now. Does not
  /// wait.
  void take_gradients(replica::Range range);
  /// Applies what was taken since the last time, in that order, and starts to copy the new values back into
  /// the flat memory. The host waits for the gradients. `first_step`: as FlatMemory::apply.
  void apply(const replica::SgdOptions& options, bool first_step);

  /// The momenta.
  void save(replica::State& state) const;
  /// And begins with the values that the flat memory has now.
  void restore(const replica::State& state);
  int64_t momentum_bytes() const { return static_cast<int64_t>(momenta_.nbytes()); }
  /// Values and gradients.
  int64_t buffer_bytes() const { return replica::storage_bytes({values_, gradients_}); }

 private:
  struct Taken {
    replica::Range range;
    /// Null without an accelerator.
    replica::Accelerator::MarkPtr copied;
  };

  replica::Range within(replica::Range range) const {
    return {range.begin - owned_.begin, range.end - owned_.begin};
  }
  /// Waits until the host has them.
  void fetch_values();

  const replica::FlatMemory& memory_;
  replica::Range owned_;
  replica::Accelerator* accelerator_;
  at::Tensor values_, gradients_, momenta_;
  std::vector<Taken> taken_;
};

}  // namespace lockstep::strategies
