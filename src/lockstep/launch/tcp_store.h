#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "lockstep/comm/store.h"

// Part of the target lockstep::tcp_store, the one piece of launch that needs LibTorch.

namespace lockstep::launch {

/// The store of torchrun's agent at host:port, a c10d::TCPStore, in which ranks of several hosts find the
/// job's server (rendezvous.h). For one thread, and of no use after a call that
/// threw. Throws TimeoutError if nobody answers within `timeout`.
std::unique_ptr<comm::Store> open_agent_store(const std::string& host, int port,
                                              std::chrono::duration<double> timeout);

}  // namespace lockstep::launch
