#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {

/// Sums a tensor over all ranks, as Theano-MPI's exchangers do: one tensor at a time. Every rank gets the
/// same bits.
class Exchanger {
 public:
  virtual ~Exchanger() = default;

  /// Overwrites a dense fp32 tensor by its sum over all ranks; on a GPU in the calling thread's stream.
  /// Collective.
  virtual void sum(const at::Tensor& tensor) = 0;

  /// Size of the buffers once the largest tensor has been summed.
  virtual int64_t buffer_bytes() const { return 0; }
};

/// Creates the exchanger of `exchange`. Bytes per step, with P the parameters in fp32 and P' padded to
/// multiples of N:
///
///     ar        all-reduce of a copy in host memory, for which the host waits    P
///     nccl32    the backend's all-reduce in place                                P
///     nccl16    the backend's all-reduce of a copy in fp16                       P/2
///     asa32     all-to-all, sum in fp32, all-gather; fp32 on the wire            all-to-all P', all-gather
///     P' asa16     the same with fp16 on the wire                                   half of these
///
/// `wire` replaces fp32 in ar, nccl32 and asa32.
std::unique_ptr<Exchanger> create_exchanger(const StrategyContext& context);

}  // namespace lockstep::strategies
