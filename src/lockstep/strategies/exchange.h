#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {

/// How one tensor is summed over all ranks, after Theano-MPI's exchangers: one tensor at a time, the next
/// when it has arrived. Every rank gets the same bits.
class Exchanger {
 public:
  virtual ~Exchanger() = default;

  /// `tensor`: fp32 and dense; it becomes the sum, on a GPU in the calling thread's stream. Collective.
  virtual void sum(const at::Tensor& tensor) = 0;

  /// What is kept to copy to, once the largest tensor was summed.
  virtual int64_t buffer_bytes() const { return 0; }
};

/// By the context's options. ar: an all-reduce of a copy in host memory, which the host waits for; nccl32,
/// nccl16: the backend's own all-reduce, as it is or in fp16; asa32, asa16: all-to-all, sum in fp32,
/// all-gather, with fp32 or fp16 on the wire and the tensor padded to a multiple of the number of ranks.
/// `wire` is the type where `exchange` does not say it.
std::unique_ptr<Exchanger> create_exchanger(const StrategyContext& context);

}  // namespace lockstep::strategies
