#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/comm/types.h"

namespace lockstep::strategies {

/// A dense tensor's memory as a Buffer. Throws Error for a dtype that no communicator carries and for a
/// tensor with holes.
comm::Buffer buffer_of(const at::Tensor& tensor);

}  // namespace lockstep::strategies
