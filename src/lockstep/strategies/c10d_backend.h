#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "lockstep/comm/communicator.h"

namespace lockstep::strategies {

/// A c10d process group whose only backend is `communicator` (owned by the caller, outliving the group), as
/// far as c10d::Reducer needs one: all_reduce by sum and broadcast on tensors of that device. Who waits for
/// what it gives, Work or Future, makes the calling thread's stream wait, as c10d has it; the host waits too
/// where the communicator does not work in the GPU's queues.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(comm::Communicator& communicator,
                                                          at::Device device);

}  // namespace lockstep::strategies
