#pragma once

#include <memory>

#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {

/// Every rank has a replica, gradients are all-reduced (`replicated` of tf_cnn_benchmarks and tensorpack).
/// Parameters, gradients and momenta lie flat (replica::FlatMemory); buckets are ranges of it in the order in
/// which gradients become ready, which the first step finds out and rank 0 decides. A gradient is divided by
/// the number of ranks while it is copied into its place, a full bucket is all-reduced while backward goes on
/// (with `overlap` off all of them after it), and the optimizer runs over each bucket as it arrives, while
/// later ones travel; with a loss scale, when all have arrived. `in_flight` buckets travel at a time, over a
/// backend that works in the GPU's queues one. Parameters are broadcast from rank 0 at the start, batch-norm
/// buffers never. Collective.
std::unique_ptr<Strategy> create_replicated(const StrategyContext& context);

}  // namespace lockstep::strategies
