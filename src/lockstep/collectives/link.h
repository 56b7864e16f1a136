#pragma once

#include <vector>

#include "lockstep/base/tcp_socket.h"
#include "lockstep/collectives/record.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::collectives {

/// Bytes per second received from one socket, in 0.2 s, while as much as goes is sent to another; ranks of a
/// ring call it at the same time. The connections are of no use to anything else afterwards. Throws CommError
/// for one that breaks.
double stream(int to, int from);

/// Measures memory: every rank copies at the same time, from one buffer of 32 MiB to another.
/// Collective. The result is the same on all ranks.
Link measure_memory(comm::Communicator& group);

/// Measures sockets: every rank sends to the next one, around the ring, and receives at the same time; ranks
/// 0 and 1 send each other 8 bytes in turn for the latency. `connections`: by rank, none to itself; of no use
/// afterwards. Two ranks or more. Collective. The result is the same on all ranks. Throws CommError for a
/// connection that breaks.
Link measure_sockets(comm::Communicator& group, std::vector<UniqueFd> connections);

}  // namespace lockstep::collectives
