#pragma once

#include <memory>

#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {

/// PyTorch's DistributedDataParallel as its C++ core does it: LibTorch's c10d::Reducer over our communicator.
///
/// The first step reduces everything as one bucket; before the second the buckets are rebuilt in the order in
/// which gradients became ready, the first with a cap of min(1 MiB, bucket_mb), the others of bucket_mb (a
/// bucket is closed once it reaches its cap, so it may exceed it by nearly one tensor). Gradients are views
/// of the buckets, divided by the number of ranks while they are copied in. Parameters are broadcast from
/// rank 0 at the start, batch-norm buffers never. Collective.
std::unique_ptr<Strategy> create_ddp(const StrategyContext& context);

}  // namespace lockstep::strategies
