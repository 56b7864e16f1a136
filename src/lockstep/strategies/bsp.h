#pragma once

#include <memory>

#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {

/// The bulk synchronous rule of Theano-MPI: after backward a local update, a barrier, and then every tensor
/// exchanged on its own, one after the other (`exchange`, see Exchanger).
///
/// bsp_sync cdd: every rank updates its own momenta, m = momentum * m + g + decay * p, the means of these
/// over all ranks are exchanged, and p -= rate * mean; a rank's own momenta stay its own, which by linearity
/// is what the mean gradient gives. avg: every rank applies the optimizer to its parameters, and these are
/// averaged. Theano-MPI itself sums momenta.
///
/// On a GPU the host waits until it has come to the barrier, and until it has done the exchange.
///
/// Measures train_s (from the begin of a step to the barrier), synchronisation_s (the barrier) and
/// communication_s (the exchange). Parameters are broadcast from rank 0 at the start, batch-norm buffers
/// never. Collective.
std::unique_ptr<Strategy> create_bsp(const StrategyContext& context);

}  // namespace lockstep::strategies
