#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/strategies/strategy_options.h"

namespace lockstep::strategies {

at::ScalarType scalar_type_of(Wire wire);

/// Half the distance from 1 to the next number: what rounding to the type changes at most, relatively.
double unit_roundoff(Wire wire);

/// Sums stretches of fp32 memory over all ranks, in the type chosen for the wire. Starting and waiting may be
/// different threads' work. The communicator outlives this and every work.
class WireAllReduce {
 public:
  WireAllReduce(comm::Communicator& group, Wire wire) : group_(group), wire_(wire) {}

  /// Collective. `values`: dense fp32; it is the sum once wait() of the work has returned, and in the calling
  /// thread's stream after wait_in_stream() with that. In a narrower type a copy travels, which lives from
  /// here until then.
  comm::WorkPtr start(const at::Tensor& values) const;

 private:
  comm::Communicator& group_;
  Wire wire_;
};

}  // namespace lockstep::strategies
