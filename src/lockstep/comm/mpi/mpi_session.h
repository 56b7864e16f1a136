#pragma once

#include <mpi.h>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/operation.h"

namespace lockstep::comm {

/// Throws CommError with MPI's own words unless `result` is MPI_SUCCESS. `call`: the function's name.
void check_mpi(int result, const char* call);

/// MPI in this process: initialised once, when the first communicator is wanted, and finalised once, at exit,
/// provided that every communicator was given back in good order. Otherwise the process ends without
/// finalising, which would wait for ranks that may never come; mpirun then ends the others. Thread-safe.
class MpiSession {
 public:
  static MpiSession& get();

  /// Collective over the processes of MPI_COMM_WORLD when called first. Throws ConfigError when these are not
  /// the ranks of `options`, TimeoutError.
  void begin(const ConnectOptions& options, Deadline deadline);

  /// A communicator exists; give_back is called once for each.
  void lend();
  void give_back(bool in_good_order);

 private:
  MpiSession() = default;
  void initialise(Deadline deadline);
  static void finalise_at_exit();

  std::mutex mutex_;
  bool initialised_ = false;
  int lent_ = 0;
  bool in_good_order_ = true;
};

}  // namespace lockstep::comm
