#pragma once

#include <string>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/operation.h"

namespace lockstep::comm {

/// Equal on two ranks exactly when one reaches the other through 127.0.0.1: same boot, same network
/// namespace.
std::string network_identity();

/// The address, in digits, at which the other ranks reach this one: that of options.interface, an address or
/// a network interface; if that is empty, loopback when all ranks are on one host, else the address from
/// which this host reaches rank 0's, or on that host from which it reaches another. A name that nothing has
/// stays. Keys in `store` begin with `prefix`. Collective over the ranks that share both.
std::string listening_address(Store& store, const std::string& prefix, const ConnectOptions& options,
                              Deadline deadline);

}  // namespace lockstep::comm
