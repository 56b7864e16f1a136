#pragma once

#include <mpi.h>

#include "lockstep/comm/types.h"

namespace lockstep::comm {

/// How MPI is to see elements of `dtype`; for reductions. MPI must be initialised.
MPI_Datatype mpi_type(DType dtype);
MPI_Op mpi_op(DType dtype, ReduceOp op);

/// MPI counts in int: reductions of more elements go in pieces of this size.
constexpr size_t kLargestMpiCount = size_t{1} << 30;

/// `bytes` bytes as `count()` elements of `type()`, however many they are.
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
