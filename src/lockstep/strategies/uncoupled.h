#pragma once

#include <memory>

#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {

/// No hooks and nothing sent: forward, backward, optimizer. Serves `single` and `independent`.
std::unique_ptr<Strategy> create_uncoupled(const StrategyContext& context);

}  // namespace lockstep::strategies
