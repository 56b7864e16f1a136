#pragma once

#include <memory>

#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {

/// Horovod's way: gradients are announced by name as they become ready, a background thread negotiates every
/// `cycle_ms` which are ready on every rank (Negotiator, over a host communicator split off for it), and
/// these are fused up to `fusion_mb` and all-reduced. Gradients lie in flat memory in the order in which the
/// first step agreed on them, so that what is fused are neighbours, sent from where they are. The optimizer
/// runs over all parameters when all have arrived.
///
/// What fuses depends on timing, and with it the order of summation where the backend's depends on a tensor's
/// place in a buffer. `deterministic` packs whole tensors up to `fusion_mb` beforehand, in the reverse order
/// of registration, and sends a pack when all of it is ready.
///
/// A cycle in which this rank has nothing new to announce is left out, unless it has announced everything;
/// between steps there are none. The thread hands the context's communicator back with the last all-reduce of
/// a step. Destroying the strategy within a step leaves what is under way, without communicating.
///
/// Measures negotiation_s (time in negotiations, waiting for other ranks included), cycles, and packs.
/// Parameters are broadcast from rank 0 at the start, batch-norm buffers never. Collective.
std::unique_ptr<Strategy> create_horovod(const StrategyContext& context);

}  // namespace lockstep::strategies
