#pragma once

#include <memory>

#include "lockstep/strategies/strategy.h"

// The functions that create the strategies of registry(). The class in the file of the same name documents
// its messages and their bytes, and names the system that it follows. All but create_uncoupled() are
// collective.

namespace lockstep::strategies {

std::unique_ptr<Strategy> create_uncoupled(const StrategyContext& context);
std::unique_ptr<Strategy> create_ddp(const StrategyContext& context);
std::unique_ptr<Strategy> create_replicated(const StrategyContext& context);
std::unique_ptr<Strategy> create_sharded(const StrategyContext& context);
std::unique_ptr<Strategy> create_parameter_server(const StrategyContext& context);
/// Throws ConfigError for a backend that cannot receive from any rank.
std::unique_ptr<Strategy> create_async_parameter_server(const StrategyContext& context);
std::unique_ptr<Strategy> create_bsp(const StrategyContext& context);
std::unique_ptr<Strategy> create_local_sgd(const StrategyContext& context);
std::unique_ptr<Strategy> create_horovod(const StrategyContext& context);

}  // namespace lockstep::strategies
