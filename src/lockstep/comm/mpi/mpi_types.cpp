#include "lockstep/comm/mpi/mpi_types.h"

#include <array>

#include "lockstep/comm/element_reduce.h"
#include "lockstep/comm/mpi/mpi_session.h"

namespace lockstep::comm {
namespace {

/// MPI has no 16-bit floats: they travel as a type of two bytes, with operations of our own.
MPI_Datatype make_half_type() {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_contiguous(2, MPI_BYTE, &type), "MPI_Type_contiguous");
  check_mpi(MPI_Type_commit(&type), "MPI_Type_commit");
  return type;
}

template <DType dtype, ReduceOp op>
void combine(void* input, void* in_and_out, int* count, MPI_Datatype*) {
  static const ReduceFunction function = reduce_function(dtype, op);
  function(in_and_out, input, in_and_out, size_t(*count));
}

MPI_Op make_op(MPI_User_function* function) {
  MPI_Op op = MPI_OP_NULL;
  constexpr int kCommutes = 1;
  check_mpi(MPI_Op_create(function, kCommutes, &op), "MPI_Op_create");
  return op;
}

template <DType dtype>
MPI_Op own_op(ReduceOp op) {
  static const std::array<MPI_Op, 3> ops = {make_op(combine<dtype, ReduceOp::kSum>),
                                            make_op(combine<dtype, ReduceOp::kMin>),
                                            make_op(combine<dtype, ReduceOp::kMax>)};
  return ops[size_t(op)];
}

}  // namespace

MPI_Datatype mpi_type(DType dtype) {
  static const MPI_Datatype half_type = make_half_type();
  switch (dtype) {
    case DType::kFloat64:
      return MPI_DOUBLE;
    case DType::kFloat16:
    case DType::kBFloat16:
      return half_type;
    case DType::kUInt8:
      return MPI_UINT8_T;
    case DType::kInt32:
      return MPI_INT32_T;
    case DType::kInt64:
      return MPI_INT64_T;
    case DType::kFloat32:
      break;
  }
  return MPI_FLOAT;
}

MPI_Op mpi_op(DType dtype, ReduceOp op) {
  if (dtype == DType::kFloat16) return own_op<DType::kFloat16>(op);
  if (dtype == DType::kBFloat16) return own_op<DType::kBFloat16>(op);
  // Open MPI's vector code saturates sums of bytes at 255; on every backend of ours they wrap around.
  if (dtype == DType::kUInt8) return own_op<DType::kUInt8>(op);
  switch (op) {
    case ReduceOp::kMin:
      return MPI_MIN;
    case ReduceOp::kMax:
      return MPI_MAX;
    case ReduceOp::kSum:
      break;
  }
  return MPI_SUM;
}

MpiBlock::MpiBlock(size_t bytes) {
  if (bytes <= kLargestMpiCount) {
    count_ = int(bytes);
    return;
  }
  // One element of a type made for it: whole pieces of kLargestMpiCount bytes, then the rest.
  MPI_Datatype piece = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_contiguous(int(kLargestMpiCount), MPI_BYTE, &piece), "MPI_Type_contiguous");
  const size_t pieces = bytes / kLargestMpiCount;
  const int lengths[] = {int(pieces), int(bytes % kLargestMpiCount)};
  const MPI_Aint places[] = {0, MPI_Aint(pieces * kLargestMpiCount)};
  const MPI_Datatype types[] = {piece, MPI_BYTE};
  check_mpi(MPI_Type_create_struct(2, lengths, places, types, &type_), "MPI_Type_create_struct");
  check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  check_mpi(MPI_Type_free(&piece), "MPI_Type_free");
  count_ = 1;
}

MpiBlock::~MpiBlock() {
  if (type_ != MPI_BYTE) MPI_Type_free(&type_);
}

}  // namespace lockstep::comm
