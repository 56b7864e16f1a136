#pragma once

#include <gloo/context.h>

#include "lockstep/comm/operation.h"
#include "lockstep/comm/types.h"

namespace lockstep::comm {

/// Collective. As Communicator::reduce_scatter, over a ring: each part travels once round the ranks,
/// gathering their contributions, and ends at its owner; (size - 1) / size of the input passes each link.
/// `tag` must be new.
void gloo_ring_reduce_scatter(gloo::Context& context, const Buffer& input, const Buffer& output, ReduceOp op,
                              uint32_t tag, Deadline deadline);

}  // namespace lockstep::comm
