#include "lockstep/strategies/tensor_buffer.h"

#include <utility>

#include <fmt/format.h>

#include <ATen/core/grad_mode.h>
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

comm::Collective sum_of(const at::Tensor& values, double ready_s) {
  const comm::Buffer buffer = buffer_of(values);
  return {.kind = comm::Collective::Kind::kAllReduce, .input = buffer, .output = buffer, .ready_s = ready_s};
}

/// An all-reduce of a narrow copy. The sum is widened in wait(), by the thread that needs it and not by the
/// communicator's.
class NarrowedWork final : public comm::Work {
 public:
  NarrowedWork(comm::Communicator& group, at::Tensor values, at::ScalarType wire, double ready_s)
      : values_(std::move(values)), narrow_(values_.to(wire)), work_(group.issue(sum_of(narrow_, ready_s))) {}

  /// After a failure elsewhere, the operation may be abandoned while the communicator still writes to the
  /// copy; the callback keeps the copy until then.
  ~NarrowedWork() override {
    if (!narrow_.defined() || followed_) return;
    try {
      work_->on_complete([narrow = std::move(narrow_)] {});
    } catch (...) {
      // The operation was recorded into a CUDA graph that is not launched, or it failed: nothing writes to
      // the copy.
    }
  }

  bool test() override { return work_->test(); }

  void wait(comm::Duration timeout) override {
    work_->wait(timeout);
    widen();
  }

  void wait() override {
    work_->wait();
    widen();
  }

  void wait_in_stream(void* stream) override {
    if (narrow_.defined() && stream != current_stream(values_)) {
      throw Error("a sum in a narrower type can only be widened in the calling thread's stream");
    }
    work_->wait_in_stream(stream);
    // The stream now runs after the communicator's last use of the copy, so its memory may be reused.
    widen();
  }

  void on_complete(std::function<void()> done) override {
    followed_ = true;
    work_->on_complete([done = std::move(done), narrow = narrow_] { done(); });
  }

 private:
  void widen() {
    if (!narrow_.defined()) return;
    const at::NoGradGuard no_grad;
    values_.copy_(narrow_);
    narrow_.reset();
  }

  at::Tensor values_;
  at::Tensor narrow_;
  comm::WorkPtr work_;
  bool followed_ = false;
};

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

at::ScalarType scalar_type_of(Wire wire) {
  switch (wire) {
    case Wire::kFp16:
      return at::kHalf;
    case Wire::kBf16:
      return at::kBFloat16;
    case Wire::kFp32:
      break;
  }
  return at::kFloat;
}

double unit_roundoff(Wire wire) {
  switch (wire) {
    case Wire::kFp16:
      return 0x1p-11;
    case Wire::kBf16:
      return 0x1p-8;
    case Wire::kFp32:
      break;
  }
  return 0x1p-24;
}

comm::WorkPtr WireAllReduce::start(const at::Tensor& values, double ready_s) const {
  if (wire_ == Wire::kFp32) return group_.issue(sum_of(values, ready_s));
  const at::NoGradGuard no_grad;
  return std::make_unique<NarrowedWork>(group_, values, scalar_type_of(wire_), ready_s);
}

}  // namespace lockstep::strategies
