#pragma once

#include <memory>

#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {

/// ZeRO's first stage: every rank has all parameters, and the momenta of its own shard, 1/N of them.
/// Parameters lie flat (replica::FlatMemory), padded so that every bucket divides by the number of ranks. A
/// full bucket is reduce-scattered while backward goes on (with `overlap` off all of them after it); rank r
/// gets the mean gradients of the r-th part of the bucket, applies the optimizer to that part, and the
/// updated parts are all-gathered while later buckets still travel. Buckets are filled in the reverse order
/// of registration throughout: another order would move momenta to other ranks. Parameters are broadcast from
/// rank 0 at the start, batch-norm buffers never. Collective.
std::unique_ptr<Strategy> create_sharded(const StrategyContext& context);

}  // namespace lockstep::strategies
