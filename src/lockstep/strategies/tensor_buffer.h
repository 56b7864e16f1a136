#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/replica/loss_scale.h"
#include "lockstep/replica/parameters.h"

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

/// Makes ranks that each unscaled only some of the gradients agree: an overflow that any of them found is
/// known to all afterwards, so that all skip the step. On a GPU in the calling thread's stream. Collective.
void agree_on_overflow(const replica::LossScale& scale, comm::Communicator& group);

}  // namespace lockstep::strategies
