#pragma once

#include <gloo/context.h>

#include "lockstep/comm/operation.h"

namespace lockstep::comm {

/// Collective. reduce_scatter over a ring: each part travels once around the ranks, collecting their
/// contributions, and ends at its owner; (size - 1) / size of the input passes each link. `tag` must be new.
void gloo_ring_reduce_scatter(gloo::Context& context, const Collective& collective, uint32_t tag,
                              Deadline deadline);

}  // namespace lockstep::comm
