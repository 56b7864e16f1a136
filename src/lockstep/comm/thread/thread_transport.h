#pragma once

#include <memory>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {

/// Collective. Joins the ranks of this process that pass the same Store, each from its own thread.
std::shared_ptr<Transport> connect_thread_transport(const ConnectOptions& options);

}  // namespace lockstep::comm
