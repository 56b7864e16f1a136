#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {

/// The owner of each tensor, where whole tensors of so many bytes are given out one after the other, each to
/// the rank that has the fewest bytes so far (the first of them).
std::vector<int> assign_owners(const std::vector<int64_t>& bytes, int ranks);

/// One copy of the variables, owned by the ranks (`parameter_server` of tf_cnn_benchmarks and tensorpack).
/// Owners are chosen by assign_owners, or rank 0 owns everything (parameter_owners). Gradients are divided by
/// the number of ranks and reduced to the owner, in buckets of what one rank owns, while backward goes on
/// (with `overlap` off after it); the owner alone has momenta and applies the optimizer once. The next step
/// begins with a fetch: every owner broadcasts what it owns, and forward begins when all is there. Batch-norm
/// buffers stay each rank's own. Collective.
std::unique_ptr<Strategy> create_parameter_server(const StrategyContext& context);

}  // namespace lockstep::strategies
