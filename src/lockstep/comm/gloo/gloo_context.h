#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <gloo/rendezvous/context.h>

#include "lockstep/comm/operation.h"
#include "lockstep/comm/store.h"

namespace lockstep::comm {

/// Collective. Connects every rank with every other; keys in `store` begin with `prefix`.
std::shared_ptr<gloo::Context> connect_gloo_context(Store& store, const std::string& prefix, int rank,
                                                    int size,
                                                    std::shared_ptr<gloo::transport::Device>& device,
                                                    Deadline deadline);

/// Ends all connections in a way that everything that waits, here and on the other side, notices; only
/// messages that may come from anybody go on waiting.
void break_gloo_connections(gloo::Context& context) noexcept;

/// At least one.
std::chrono::milliseconds milliseconds_left(Deadline deadline);

}  // namespace lockstep::comm
