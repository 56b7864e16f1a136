#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include <gloo/context.h>
#include <gloo/transport/tcp/device.h>
#include <sys/types.h>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/operation.h"
#include "lockstep/comm/store.h"

namespace lockstep::comm {

/// One rank's TCP endpoint: its address and Gloo's thread that moves its bytes.
class GlooDevice {
 public:
  /// Collective over the ranks that share `store` and `prefix`. Listens on options.interface, an address or
  /// the name of a network interface; if that is empty, on loopback when all ranks are on one host, else on
  /// the address from which this host reaches rank 0's, or on that host from which it reaches another. Throws
  /// CommError that names --interface.
  GlooDevice(Store& store, const std::string& prefix, const ConnectOptions& options, Deadline deadline);

  const std::shared_ptr<gloo::transport::tcp::Device>& device() const { return device_; }
  /// The address that its ranks listen on, in digits.
  const std::string& address() const { return address_; }

  /// Processor seconds of that thread; 0 if it was not found.
  double cpu_s() const;

 private:
  std::shared_ptr<gloo::transport::tcp::Device> device_;
  std::string address_;
  pid_t loop_thread_ = -1;
};

/// Collective. Connects every rank with every other, and with nobody else; keys in `store`, which strangers
/// cannot read, begin with `prefix`.
std::shared_ptr<gloo::Context> connect_gloo_context(Store& store, const std::string& prefix, int rank,
                                                    int size, const GlooDevice& device, Deadline deadline);

/// Closes all connections in a way that everything that waits, here and on the other side, notices; only
/// messages that may come from any rank go on waiting.
void break_gloo_connections(gloo::Context& context) noexcept;

/// Time left until `deadline`, at least a millisecond.
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
