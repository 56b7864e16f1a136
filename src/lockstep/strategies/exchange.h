#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/strategies/strategy_options.h"

namespace lockstep::strategies {

/// How one tensor is summed over all ranks, after Theano-MPI's exchangers: blocking, one tensor at a time.
/// Every rank gets the same bits.
class Exchanger {
 public:
  virtual ~Exchanger() = default;

  /// `tensor`: fp32 and dense; it becomes the sum. Collective.
  virtual void sum(const at::Tensor& tensor) = 0;

  /// What is kept to copy to, once the largest tensor was summed.
  virtual int64_t buffer_bytes() const { return 0; }
};

/// ar: an all-reduce of a copy in host memory; nccl32, nccl16: the backend's own all-reduce, as it is or in
/// fp16; asa32, asa16: all-to-all, sum in fp32, all-gather, with fp32 or fp16 on the wire and the tensor
/// padded to a multiple of the number of ranks. `wire` is the type where `exchange` does not say it. The
/// communicator is the caller's and outlives the exchanger.
std::unique_ptr<Exchanger> create_exchanger(Exchange exchange, Wire wire, comm::Communicator& group);

}  // namespace lockstep::strategies
