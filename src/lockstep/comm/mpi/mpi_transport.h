#pragma once

#include <memory>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {

/// Collective over MPI_COMM_WORLD, whose ranks must be those of `options`. Throws ConfigError, TimeoutError,
/// CommError.
std::shared_ptr<Transport> connect_mpi_transport(const ConnectOptions& options);

}  // namespace lockstep::comm
