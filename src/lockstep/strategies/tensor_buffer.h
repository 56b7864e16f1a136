#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/replica/sgd.h"
#include "lockstep/strategies/strategy_options.h"

// Tensors as the memory of collectives.

namespace lockstep::strategies {

/// The memory of a dense tensor as a Buffer. A GPU's memory is used after the work that the calling thread's
/// stream holds now. Throws Error for a dtype that communicators do not support, and for a tensor that is not
/// dense.
comm::Buffer buffer_of(const at::Tensor& tensor);

/// The calling thread's stream on the tensor's GPU as a native handle; null for a tensor on the CPU.
void* current_stream(const at::Tensor& tensor);

/// Orders the next work on the tensor's device after `work`: on the CPU it blocks; on a GPU the calling
/// thread's stream waits, and the host does too only if the backend needs it.
void wait_for(comm::Work& work, const at::Tensor& tensor);

/// Overwrites `values` by those of rank 0. Collective.
void broadcast_from_rank_0(comm::Communicator& group, const at::Tensor& values);

/// All-reduces a number over `group`, which must outlive the result, by maximum or by sum.
replica::SgdOptions::Agree agreement_over(comm::Communicator& group);

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
