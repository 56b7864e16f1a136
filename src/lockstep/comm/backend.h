#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/store.h"

namespace lockstep::comm {

/// What a rank needs to join the others.
struct ConnectOptions {
  int rank = 0;
  int size = 1;
  /// Rendezvous; owned by the caller, outlives the communicator and all that are split from it. mpi, and a
  /// single rank, do without it.
  Store* store = nullptr;
  /// How long an operation, and joining itself, may take.
  Duration timeout{300};
  /// The address or network interface that other hosts reach this one by; empty: the one that the host name
  /// resolves to, loopback when all ranks are on this host (gloo).
  std::string interface;
  /// The number of this rank's GPU among those that its process sees; -1: it has none. nccl needs one; with
  /// one the other backends take its memory too, staged through host memory.
  int cuda_device = -1;
};

/// Whether a backend can be used here, and if not, why and what to install.
struct BackendStatus {
  std::string name;
  bool usable = false;
  /// "Open MPI 4.1.4" where usable; else the reason.
  std::string detail;
  /// What to do when it is not usable.
  std::string advice;
};

/// All backends that lockstep knows, usable or not: thread, gloo, mpi, nccl.
std::vector<std::string> backend_names();

/// Opens the backend's plugin, never joins anything. Never throws for a known name.
BackendStatus backend_status(const std::string& name);

/// Collective over the ranks that are to join. Throws ConfigError for an unknown name (nearest names
/// offered), BackendMissing when the plugin or its library is not there, CommError or TimeoutError when
/// joining fails. The thread backend joins ranks of one process that pass the same Store. With nccl every
/// rank needs a GPU of its own (ConfigError that names the ranks otherwise).
std::unique_ptr<Communicator> connect(const std::string& backend, const ConnectOptions& options);

}  // namespace lockstep::comm
