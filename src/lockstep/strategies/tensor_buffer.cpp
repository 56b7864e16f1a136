#include "lockstep/strategies/tensor_buffer.h"

#include <fmt/format.h>

#include <c10/core/impl/VirtualGuardImpl.h>

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

void* current_stream(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return nullptr;
  return c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device()).native_handle();
}

comm::Buffer buffer_of(const at::Tensor& tensor) {
  if (!tensor.is_non_overlapping_and_dense())
    throw Error("a tensor that is not dense cannot be communicated");
  comm::Buffer buffer{tensor.data_ptr(), static_cast<size_t>(tensor.numel()), dtype_of(tensor.scalar_type())};
  if (tensor.is_cuda()) {
    buffer.device = comm::DeviceKind::kCuda;
    buffer.stream = current_stream(tensor);
  }
  return buffer;
}

void wait_for(comm::Work& work, const at::Tensor& tensor) {
  if (tensor.is_cuda()) {
    work.wait_in_stream(current_stream(tensor));
  } else {
    work.wait();
  }
}

void broadcast_from_rank_0(comm::Communicator& group, const at::Tensor& values) {
  wait_for(*group.broadcast(buffer_of(values), 0), values);
}

replica::SgdOptions::Agree agreement_over(comm::Communicator& group) {
  return [&group](const at::Tensor& number, bool as_maximum) {
    const auto op = as_maximum ? comm::ReduceOp::kMax : comm::ReduceOp::kSum;
    wait_for(*group.all_reduce(buffer_of(number), op), number);
  };
}

}  // namespace lockstep::strategies
