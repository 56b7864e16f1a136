#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lockstep/base/tcp_socket.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::links {

/// One rank's connections to all others. Calls block, and throw TimeoutError or CommError that name the
/// other rank. Not thread-safe.
class Wire {
 public:
  virtual ~Wire() = default;

  virtual void send(int peer, std::span<const char> message) = 0;
  /// Receives as much as `message` holds.
  virtual void receive(int peer, std::span<char> message) = 0;

  /// Bytes of a message that is long enough for the full rate.
  virtual size_t chunk_bytes() const = 0;

  /// Received bytes per second, while this rank sends to `to` and receives from `from`. Collective over the
  /// ranks of a ring; after the first, nothing else may use the wire.
  virtual double stream(int to, int from) = 0;
};

/// TCP sockets, by rank, none to itself. `timeout`: of a message.
std::unique_ptr<Wire> socket_wire(std::vector<UniqueFd> connections, comm::Duration timeout);

/// Messages of a library, in whatever it takes. `group` outlives the wire.
std::unique_ptr<Wire> message_wire(comm::Communicator& group);

}  // namespace lockstep::links
