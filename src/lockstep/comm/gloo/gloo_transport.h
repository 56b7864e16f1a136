#pragma once

#include <memory>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {

/// Collective over the ranks that are to join, at least two. Throws TimeoutError, CommError, ConfigError.
std::shared_ptr<Transport> connect_gloo_transport(const ConnectOptions& options);

}  // namespace lockstep::comm
