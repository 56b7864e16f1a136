#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/base/tcp_socket.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/store.h"
#include "lockstep/links/record.h"

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

struct Pacing {
  /// Times that every flow is measured, each time after all others.
  int rounds = 5;
  /// Seconds for both flows of a pair, over all rounds.
  double pair_s = 0.5;

  double flow_s() const { return pair_s / 2 / rounds; }
};

/// Ordered pairs of ranks, the two of a pair one after the other, and each rank at even distances.
std::vector<std::pair<int, int>> flow_order(int ranks);

struct MeasureCallbacks {
  /// Called on every rank before a flow of its own, with the share of all flows that are done.
  std::function<void(double share)> progress;
  /// Called on rank 0 after each round, with a record that is summarized.
  std::function<void(const Record&)> keep;
};

/// Measures every flow alone, round by round, then all ranks sending to the next one at the same time, and
/// fills in record.flows on rank 0, where they already have their kinds. The ranks whose turn it is not
/// sleep at `store`. Collective over `group`, which has two ranks or more. Throws CommError and its kin.
void measure_flows(Record& record, comm::Communicator& group, Wire& wire, comm::Store& store,
                   const Pacing& pacing, const MeasureCallbacks& callbacks);

}  // namespace lockstep::links
