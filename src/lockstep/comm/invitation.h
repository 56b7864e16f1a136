#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/secret.h"
#include "lockstep/base/tcp_socket.h"
#include "lockstep/comm/operation.h"
#include "lockstep/comm/store.h"

namespace lockstep::comm {

/// An open connection to one other rank, for a library that would take the first that connects: one rank
/// listens and puts an invitation into the job's store, which only ranks can read; the other follows it, and
/// each proves to the other that it knows the secret in it. Not thread-safe.
class Invitation {
 public:
  /// Listens on any free port of this address. Throws CommError.
  explicit Invitation(const std::string& address) : address_(address), listener_(listen_at(address)) {}

  /// For the other rank: where to connect, and the secret.
  std::string text() const;

  /// Waits for that rank. Calls `on_stranger` with a sentence about each stranger. Throws TimeoutError.
  UniqueFd wait(Deadline deadline, const std::function<void(const std::string&)>& on_stranger) const;

  /// The other rank's part; it connects from the address `from`. Throws TimeoutError, CommError.
  static UniqueFd follow(const std::string& text, const std::string& from, Deadline deadline);

 private:
  const std::string address_;
  const Listener listener_;
  const std::string secret_ = random_secret();
};

/// Collective. Connections to all other ranks, by rank; each listens at, and connects from, an address of its
/// own. Keys in `store` begin with `prefix`. Throws TimeoutError, CommError.
std::vector<UniqueFd> connect_ranks(Store& store, const std::string& prefix, int rank, int size,
                                    const std::string& address, Deadline deadline);

}  // namespace lockstep::comm
