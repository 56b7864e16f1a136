#include "lockstep/strategies/exchange.h"

#include <utility>

#include <ATen/ops/empty.h>

#include "lockstep/base/error.h"
#include "lockstep/strategies/tensor_buffer.h"
#include "lockstep/strategies/wire.h"

namespace lockstep::strategies {
namespace {

/// The memory of a dense tensor, whatever its strides.
at::Tensor flat(const at::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1});
}

/// Room that grows to the largest tensor and is used for all.
class Scratch {
 public:
  explicit Scratch(at::ScalarType dtype) : dtype_(dtype) {}

  at::Tensor get(int64_t count) {
    if (!memory_.defined() || memory_.numel() < count) memory_ = at::empty({count}, dtype_);
    return memory_.slice(0, 0, count);
  }

  int64_t bytes() const { return memory_.defined() ? static_cast<int64_t>(memory_.nbytes()) : 0; }

 private:
  at::ScalarType dtype_;
  at::Tensor memory_;
};

/// The backend's own all-reduce.
class Direct final : public Exchanger {
 public:
  explicit Direct(comm::Communicator& group) : group_(group) {}

  void sum(const at::Tensor& tensor) override {
    group_.all_reduce(buffer_of(tensor), comm::ReduceOp::kSum)->wait();
  }

 private:
  comm::Communicator& group_;
};

/// The backend's own all-reduce of a copy.
class ThroughCopy final : public Exchanger {
 public:
  ThroughCopy(comm::Communicator& group, at::ScalarType wire) : group_(group), copy_(wire) {}

  void sum(const at::Tensor& tensor) override {
    const at::Tensor copy = copy_.get(tensor.numel());
    copy.copy_(flat(tensor));
    group_.all_reduce(buffer_of(copy), comm::ReduceOp::kSum)->wait();
    flat(tensor).copy_(copy);
  }

  int64_t buffer_bytes() const override { return copy_.bytes(); }

 private:
  comm::Communicator& group_;
  Scratch copy_;
};

/// All-to-all, sum, all-gather.
class AllToAllSumAllGather final : public Exchanger {
 public:
  AllToAllSumAllGather(comm::Communicator& group, at::ScalarType wire)
      : group_(group), mine_(wire), theirs_(wire), sum_(at::kFloat) {}

  void sum(const at::Tensor& tensor) override {
    const int64_t ranks = group_.size();
    const int64_t part = (tensor.numel() + ranks - 1) / ranks;
    const at::Tensor mine = mine_.get(part * ranks);
    mine.slice(0, 0, tensor.numel()).copy_(flat(tensor));
    mine.slice(0, tensor.numel()).zero_();
    const at::Tensor theirs = theirs_.get(part * ranks);
    group_.all_to_all(buffer_of(mine), buffer_of(theirs))->wait();
    const at::Tensor sum = sum_.get(part);
    sum.copy_(theirs.slice(0, 0, part));
    for (int64_t rank = 1; rank < ranks; ++rank) sum.add_(theirs.slice(0, rank * part, (rank + 1) * part));
    // This rank takes its own part as rounded for the wire too, so that all have the same.
    const at::Tensor own = mine.slice(0, group_.rank() * part, (group_.rank() + 1) * part);
    own.copy_(sum);
    group_.all_gather(buffer_of(own), buffer_of(mine))->wait();
    flat(tensor).copy_(mine.slice(0, 0, tensor.numel()));
  }

  int64_t buffer_bytes() const override { return mine_.bytes() + theirs_.bytes() + sum_.bytes(); }

 private:
  comm::Communicator& group_;
  Scratch mine_, theirs_, sum_;
};

}  // namespace

std::unique_ptr<Exchanger> create_exchanger(Exchange exchange, Wire wire, comm::Communicator& group) {
  switch (exchange) {
    case Exchange::kAr:
      return std::make_unique<ThroughCopy>(group, scalar_type_of(wire));
    case Exchange::kNccl32:
      if (wire == Wire::kFp32) return std::make_unique<Direct>(group);
      return std::make_unique<ThroughCopy>(group, scalar_type_of(wire));
    case Exchange::kNccl16:
      return std::make_unique<ThroughCopy>(group, at::kHalf);
    case Exchange::kAsa32:
      return std::make_unique<AllToAllSumAllGather>(group, scalar_type_of(wire));
    case Exchange::kAsa16:
      return std::make_unique<AllToAllSumAllGather>(group, at::kHalf);
  }
  throw Error("an unknown exchange");
}

}  // namespace lockstep::strategies
