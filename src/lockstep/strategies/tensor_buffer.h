#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"

namespace lockstep::strategies {

/// A dense tensor's memory as a Buffer, that of a GPU as it is after what the calling thread's stream holds.
/// Throws Error for a dtype that no communicator carries and for a tensor with holes.
comm::Buffer buffer_of(const at::Tensor& tensor);

/// The stream of the calling thread on the tensor's GPU, as the GPU's library knows it; null on the CPU.
void* current_stream(const at::Tensor& tensor);

/// What comes next on the tensor's device comes after the work: on the CPU this blocks, on a GPU the calling
/// thread's stream waits and, where the backend can, nobody else.
void wait_for(comm::Work& work, const at::Tensor& tensor);

}  // namespace lockstep::strategies
