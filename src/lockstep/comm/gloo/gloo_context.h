#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include <gloo/rendezvous/context.h>

#include "lockstep/comm/operation.h"
#include "lockstep/comm/store.h"

namespace lockstep::comm {

/// Collective. Connects every rank with every other; keys in `store` begin with `prefix`.
std::shared_ptr<gloo::Context> connect_gloo_context(Store& store, const std::string& prefix, int rank,
                                                    int size,
                                                    std::shared_ptr<gloo::transport::Device>& device,
                                                    Deadline deadline);

/// Closes all connections in a way that everything that waits, here and on the other side, notices; only
/// messages that may come from any rank go on waiting.
void break_gloo_connections(gloo::Context& context) noexcept;

/// At least one.
std::chrono::milliseconds milliseconds_left(Deadline deadline);

/// Call from a catch block only. Throws the exception of lockstep's family that a Gloo exception stands for
/// (PeerLostError for a closed connection, TimeoutError, else CommError), and lockstep's own unchanged.
[[noreturn]] void rethrow_gloo_exception();

template <typename Call>
auto translated(Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (...) {
    rethrow_gloo_exception();
  }
}

}  // namespace lockstep::comm
