#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/store.h"

namespace lockstep::comm {

/// Parameters of a rank that joins the others.
struct ConnectOptions {
  int rank = 0;
  int size = 1;
  /// Rendezvous; owned by the caller, must outlive the communicator and all that are split from it. Not
  /// needed for mpi, nor for a single rank.
  Store* store = nullptr;
  /// Limit for joining, and for each operation.
  Duration timeout{300};
  /// Address or network interface at which other hosts reach this one. Empty: loopback when all ranks are on
  /// this host, else the address from which this host reaches `master`. gloo only.
  std::string interface;
  /// Name or address of rank 0's host, from the launcher; may be empty.
  std::string master = {};
  /// Number of this rank's GPU among those that its process sees; -1: none. nccl requires one; given one, the
  /// other backends take its memory too, staged through host memory.
  int cuda_device = -1;
};

/// Whether a backend can be used here; if not, the reason and a remedy.
struct BackendStatus {
  std::string name;
  bool usable = false;
  /// "Open MPI 4.1.4" where usable; else the reason.
  std::string detail;
  /// The remedy, if not usable.
  std::string advice;
};

/// All backends, usable or not: thread, gloo, mpi, nccl.
std::vector<std::string> backend_names();

/// Opens the backend's plugin, never joins anything. Never throws for a known name.
BackendStatus backend_status(const std::string& name);

/// Collective over the ranks that are to join. Throws ConfigError for an unknown name (with the nearest
/// names), BackendMissing when the plugin or its library is missing, CommError or TimeoutError when joining
/// fails. The thread backend joins ranks of one process that pass the same Store. With nccl every
/// rank needs a GPU of its own.
std::unique_ptr<Communicator> connect(const std::string& backend, const ConnectOptions& options);

}  // namespace lockstep::comm
