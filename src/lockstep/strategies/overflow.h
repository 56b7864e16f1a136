#pragma once

#include "lockstep/comm/communicator.h"
#include "lockstep/replica/loss_scale.h"

namespace lockstep::strategies {

/// For ranks that each see only some of the gradients: after every one has unscaled its own, all know of an
/// overflow that any of them found, and leave out the step alike. On a GPU in the calling thread's stream.
/// Collective.
void agree_on_overflow(const replica::LossScale& scale, comm::Communicator& group);

}  // namespace lockstep::strategies
