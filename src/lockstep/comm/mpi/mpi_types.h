#pragma once

#include <mpi.h>

#include "lockstep/comm/types.h"

namespace lockstep::comm {

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
