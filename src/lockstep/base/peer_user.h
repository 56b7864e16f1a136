#pragma once

namespace lockstep {

/// Owner of a connection's other end.
enum class PeerUser {
  /// This process's user, or unknown: another host's, or the system does not tell.
  kOwn,
  kOther,
  /// It has been closed.
  kNobody,
};

/// By the system's table of connections; looks only at those of the loopback interface.
PeerUser peer_user(int fd);

}  // namespace lockstep
