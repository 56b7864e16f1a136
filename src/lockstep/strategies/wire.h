#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/strategies/strategy_options.h"

namespace lockstep::strategies {

at::ScalarType scalar_type_of(Wire wire);

/// Half the distance from 1 to the next larger number: the largest relative error of rounding to the type.
double unit_roundoff(Wire wire);

/// Sums ranges of fp32 memory over all ranks, in the number format of the wire. Different threads may start
/// and wait. The communicator must outlive this object and all of its operations.
class WireAllReduce {
 public:
  WireAllReduce(comm::Communicator& group, Wire wire) : group_(group), wire_(wire) {}

  /// Collective. `values`: dense fp32; overwritten by the sum when wait() returns, or in the calling thread's
  /// stream after wait_in_stream(). A narrower format sends a copy, which exists from here until then.
  /// `ready_s`: as Collective::ready_s.
  comm::WorkPtr start(const at::Tensor& values, double ready_s = 0) const;

 private:
  comm::Communicator& group_;
  Wire wire_;
};

}  // namespace lockstep::strategies
