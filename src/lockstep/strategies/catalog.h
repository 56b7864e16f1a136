#pragma once

#include <memory>

#include "lockstep/strategies/strategy.h"

// The functions that create the strategies of registry(). The class in the file of the same name says what it
// sends, when, how many bytes, and which system it follows. Those that communicate are collective.

namespace lockstep::strategies {

/// `single`, `independent` and `data_parallel`: the optimizer, and nothing else.
std::unique_ptr<Strategy> create_uncoupled(const StrategyContext& context);

/// PyTorch's DistributedDataParallel.
std::unique_ptr<Strategy> create_ddp(const StrategyContext& context);

/// Buckets of gradients in flat memory, all-reduced during backward.
std::unique_ptr<Strategy> create_replicated(const StrategyContext& context);

/// ZeRO stage 1: every rank updates its share of the parameters.
std::unique_ptr<Strategy> create_sharded(const StrategyContext& context);

/// One copy of the variables, owned by the ranks. With `consistency` async: create_async_parameter_server().
std::unique_ptr<Strategy> create_parameter_server(const StrategyContext& context);

/// Owners apply the gradients of each rank when they arrive. Throws ConfigError for a backend that cannot
/// receive from any rank.
std::unique_ptr<Strategy> create_async_parameter_server(const StrategyContext& context);

/// The bulk synchronous rule of Theano-MPI.
std::unique_ptr<Strategy> create_bsp(const StrategyContext& context);

/// Horovod's negotiation and fusion.
std::unique_ptr<Strategy> create_horovod(const StrategyContext& context);

}  // namespace lockstep::strategies
