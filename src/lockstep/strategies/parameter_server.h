#pragma once

#include <memory>

#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {

/// One copy of the variables, owned by the ranks (`parameter_server` of tf_cnn_benchmarks and tensorpack).
/// Owners are chosen by assign_owners, or rank 0 owns everything (parameter_owners). Gradients are divided by
/// the number of ranks and reduced to the owner, in buckets of what one rank owns, while backward goes on
/// (with `overlap` off after it); the owner alone has momenta and applies the optimizer once. The next step
/// begins with a fetch: every owner broadcasts what it owns, and forward begins when all is there. Batch-norm
/// buffers stay each rank's own. With `parameter_device` cpu what a rank owns beside a GPU is kept and
/// updated in host memory (HostShard). With `consistency` async what create_async_parameter_server makes.
/// Collective.
std::unique_ptr<Strategy> create_parameter_server(const StrategyContext& context);

}  // namespace lockstep::strategies
