#include "lockstep/strategies/exchange.h"

#include <utility>

#include <ATen/ops/empty.h>

#include "lockstep/base/error.h"
#include "lockstep/strategies/tensor_buffer.h"
#include "lockstep/strategies/wire.h"

namespace lockstep::strategies {
namespace {

/// A flat view of a dense tensor's memory, regardless of its strides.
at::Tensor flat(const at::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1});
}

/// A buffer that grows to the size of the largest tensor.
class Scratch {
 public:
  explicit Scratch(at::ScalarType dtype) : dtype_(dtype) {}

  at::Tensor get(int64_t count, at::Device device) {
    if (!memory_.defined() || memory_.numel() < count) {
      memory_ = at::empty({count}, at::TensorOptions(device).dtype(dtype_));
    }
    return memory_.slice(0, 0, count);
  }

  int64_t bytes() const { return memory_.defined() ? static_cast<int64_t>(memory_.nbytes()) : 0; }

 private:
  at::ScalarType dtype_;
  at::Tensor memory_;
};

/// The backend's all-reduce, in place.
class Direct final : public Exchanger {
 public:
  explicit Direct(comm::Communicator& group) : group_(group) {}

  void sum(const at::Tensor& tensor) override {
    wait_for(*group_.all_reduce(buffer_of(tensor), comm::ReduceOp::kSum), tensor);
  }

 private:
  comm::Communicator& group_;
};

/// An all-reduce of a copy, in another type or in host memory.
class ThroughCopy final : public Exchanger {
 public:
  enum class Where { kDevice, kHost };

  /// `group` must accept memory of the copy's device.
  ThroughCopy(comm::Communicator& group, at::ScalarType wire, Where where)
      : group_(group), where_(where), copy_(wire) {}

  void sum(const at::Tensor& tensor) override {
    const at::Tensor copy = copy_.get(tensor.numel(), where_ == Where::kHost ? at::kCPU : tensor.device());
    // Copies to and from the host wait for the device.
    copy.copy_(flat(tensor));
    wait_for(*group_.all_reduce(buffer_of(copy), comm::ReduceOp::kSum), copy);
    flat(tensor).copy_(copy);
  }

  int64_t buffer_bytes() const override { return copy_.bytes(); }

 private:
  comm::Communicator& group_;
  Where where_;
  Scratch copy_;
};

/// An all-reduce made of an all-to-all, a local sum in fp32, and an all-gather. With N ranks, each sums one
/// part:
///
///     mine      | part 0 | part 1 | ... | part N-1 |        this rank's tensor, padded to N equal parts
///     theirs    | mine of rank 0 | mine of rank 1 | ...     after all-to-all: this rank's part of every
///     tensor sum       | part |                                    fp32, whatever the type on the wire mine
///     | part 0 | part 1 | ... | part N-1 |        after all-gather: all sums
class AllToAllSumAllGather final : public Exchanger {
 public:
  AllToAllSumAllGather(comm::Communicator& group, at::ScalarType wire)
      : group_(group), mine_(wire), theirs_(wire), sum_(at::kFloat) {}

  void sum(const at::Tensor& tensor) override {
    const int64_t ranks = group_.size();
    const int64_t part = (tensor.numel() + ranks - 1) / ranks;
    const at::Tensor mine = mine_.get(part * ranks, tensor.device());
    mine.slice(0, 0, tensor.numel()).copy_(flat(tensor));
    mine.slice(0, tensor.numel()).zero_();
    const at::Tensor theirs = theirs_.get(part * ranks, tensor.device());
    wait_for(*group_.all_to_all(buffer_of(mine), buffer_of(theirs)), theirs);
    const at::Tensor sum = sum_.get(part, tensor.device());
    sum.copy_(theirs.slice(0, 0, part));
    for (int64_t rank = 1; rank < ranks; ++rank) sum.add_(theirs.slice(0, rank * part, (rank + 1) * part));
    // The own part is rounded to the wire's type as well, so that all ranks have the same bits.
    const at::Tensor own = mine.slice(0, group_.rank() * part, (group_.rank() + 1) * part);
    own.copy_(sum);
    wait_for(*group_.all_gather(buffer_of(own), buffer_of(mine)), mine);
    flat(tensor).copy_(mine.slice(0, 0, tensor.numel()));
  }

  int64_t buffer_bytes() const override { return mine_.bytes() + theirs_.bytes() + sum_.bytes(); }

 private:
  comm::Communicator& group_;
  Scratch mine_, theirs_, sum_;
};

}  // namespace

std::unique_ptr<Exchanger> create_exchanger(const StrategyContext& context) {
  using enum ThroughCopy::Where;
  comm::Communicator& group = *context.communicator;
  const Wire wire = context.options.wire;
  switch (context.options.exchange) {
    case Exchange::kAr:
      return std::make_unique<ThroughCopy>(context.host_communicator(), scalar_type_of(wire), kHost);
    case Exchange::kNccl32:
      if (wire == Wire::kFp32) return std::make_unique<Direct>(group);
      return std::make_unique<ThroughCopy>(group, scalar_type_of(wire), kDevice);
    case Exchange::kNccl16:
      return std::make_unique<ThroughCopy>(group, at::kHalf, kDevice);
    case Exchange::kAsa32:
      return std::make_unique<AllToAllSumAllGather>(group, scalar_type_of(wire));
    case Exchange::kAsa16:
      return std::make_unique<AllToAllSumAllGather>(group, at::kHalf);
  }
  throw Error("unknown exchange");
}

}  // namespace lockstep::strategies
