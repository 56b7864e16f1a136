#pragma once

#include <functional>
#include <string>

#include "lockstep/comm/backend.h"

namespace lockstep::comm {

/// How a rank of a test connects.
using Connect =
    std::function<std::unique_ptr<Communicator>(const std::string& backend, const ConnectOptions&)>;

/// The ranks that this test program was started for (--backend NAME --ranks N [--threads] [--staged]
/// [--hosts H]): threads of this process for the thread backend and with --threads, else this process is one
/// of them. --hosts: all-reduces are hierarchical, and the ranks are dealt to H hosts in turn.
/// --staged (thread only): the buffers of the tests pass for a device's, and go through staging.
class RankWorld {
 public:
  static RankWorld& get();

  const std::string& backend() const { return backend_; }
  int size() const { return size_; }

  /// Runs `body` on every rank with the communicator of all. An exception fails the test.
  void run(const std::function<void(Communicator&)>& body);

  /// The number of this rank, for programs that are one; -1 for threads.
  int own_rank() const { return own_rank_; }

 private:
  friend int run_as_ranks(int argc, char** argv, const Connect& connect_rank);

  std::string backend_;
  int size_ = 0;
  bool threads_ = false;
  Connect connect_;
  int own_rank_ = -1;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Communicator> communicator_;
};

/// Runs `body` on `size` threads, connected by the thread backend.
void run_threads(int size, Duration timeout, const std::function<void(Communicator&)>& body);

/// The same, with communicators that stage a device's memory in pieces of a few KiB; the device is the host
/// (HostCopyEngine).
void run_staged_threads(int size, Duration timeout, const std::function<void(Communicator&)>& body);

/// Ample for a healthy operation on a loaded machine, and under the limit that ctest sets.
Duration test_timeout();

/// main() of a test program that runs as ranks. `connect_rank`: null for comm::connect.
int run_as_ranks(int argc, char** argv, const Connect& connect_rank = nullptr);

}  // namespace lockstep::comm
