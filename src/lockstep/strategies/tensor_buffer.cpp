#include "lockstep/strategies/tensor_buffer.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::strategies {
namespace {

comm::DType dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return comm::DType::kFloat32;
    case at::kDouble:
      return comm::DType::kFloat64;
    case at::kHalf:
      return comm::DType::kFloat16;
    case at::kBFloat16:
      return comm::DType::kBFloat16;
    case at::kByte:
      return comm::DType::kUInt8;
    case at::kInt:
      return comm::DType::kInt32;
    case at::kLong:
      return comm::DType::kInt64;
    default:
      throw Error(fmt::format("tensors of type {} cannot be communicated", at::toString(type)));
  }
}

}  // namespace

comm::Buffer buffer_of(const at::Tensor& tensor) {
  if (!tensor.is_non_overlapping_and_dense()) throw Error("a tensor with holes cannot be communicated");
  return {tensor.data_ptr(), static_cast<size_t>(tensor.numel()), dtype_of(tensor.scalar_type())};
}

}  // namespace lockstep::strategies
