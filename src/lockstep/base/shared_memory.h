#pragma once

#include <string>

#include "lockstep/base/tcp_socket.h"

namespace lockstep {

/// Memory that processes of one host share through a descriptor. No folder has a name for it, and it is freed
/// with its last process, however that ends.
struct SharedMemory {
  UniqueFd fd;
  /// For open_shared_memory(): "PATH NAME".
  std::string address;

  /// Where the system has none, without a descriptor.
  static SharedMemory make(const std::string& purpose);
};

/// Opens another process's. No descriptor on another host, and wherever that memory is out of reach.
UniqueFd open_shared_memory(const std::string& address);

}  // namespace lockstep
