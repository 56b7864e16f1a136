#pragma once

#include <functional>
#include <string>

#include "lockstep/comm/backend.h"

namespace lockstep::comm {

/// The ranks that this test program was started for (--backend NAME --ranks N): threads of this process for
/// the thread backend; else this process is one of them.
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
  friend int run_as_ranks(int argc, char** argv);

  std::string backend_;
  int size_ = 0;
  int own_rank_ = -1;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Communicator> communicator_;
};

/// Runs `body` on `size` threads, connected by the thread backend.
void run_threads(int size, Duration timeout, const std::function<void(Communicator&)>& body);

/// Ample for a healthy operation on a loaded machine, and under the limit that ctest sets.
Duration test_timeout();

/// main() of a test program that runs as ranks.
int run_as_ranks(int argc, char** argv);

}  // namespace lockstep::comm
