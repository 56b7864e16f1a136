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

/// MPI's type and operation to reduce elements of `dtype` with. MPI must be initialized.
MPI_Datatype mpi_type(DType dtype);
MPI_Op mpi_op(DType dtype, ReduceOp op);

/// Reductions of more elements are cut into pieces of this size, since MPI counts in int.
constexpr size_t kLargestMpiCount = size_t{1} << 30;

/// Describes any number of bytes to MPI, whose counts are int: as `count()` elements of `type()`.
class MpiBlock {
 public:
  explicit MpiBlock(size_t bytes);
  ~MpiBlock();
  MpiBlock(const MpiBlock&) = delete;
  MpiBlock& operator=(const MpiBlock&) = delete;

  MPI_Datatype type() const { return type_; }
  int count() const { return count_; }

 private:
  MPI_Datatype type_ = MPI_BYTE;
  int count_ = 0;
};

}  // namespace lockstep::comm
