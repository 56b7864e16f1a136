#pragma once

#include <mpi.h>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/operation.h"

namespace lockstep::comm {

/// Throws CommError with MPI's own message unless `result` is MPI_SUCCESS. `call`: the function's name.
void check_mpi(int result, const char* call);

/// MPI in this process: initialized once, for the first communicator, and finalized once, at exit, provided
/// that every communicator was given back in good order. Otherwise the process exits without finalizing,
/// which would wait for ranks that may never come; mpirun then ends the others. Thread-safe.
class MpiSession {
 public:
  static MpiSession& get();

  /// Initializes MPI; collective over the processes of MPI_COMM_WORLD in the first call. Throws ConfigError
  /// when these are not the ranks of `options`, TimeoutError.
  void begin(const ConnectOptions& options, Deadline deadline);

  /// Counts a new communicator; give_back is called once for each.
  void lend();
  void give_back(bool in_good_order);

 private:
  MpiSession() = default;
  void initialize(Deadline deadline);
  static void finalize_at_exit();

  std::mutex mutex_;
  bool initialized_ = false;
  int lent_ = 0;
  bool in_good_order_ = true;
};

}  // namespace lockstep::comm
