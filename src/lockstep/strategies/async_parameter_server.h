#pragma once

#include <memory>

#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {

/// The asynchronous parameter server (tensorpack's AsyncMultiGPUTrainer, and distributed TensorFlow without
/// cross_replica_sync). Owners and buckets are those of the synchronous one. Every rank is a worker and goes
/// its own way: before forward it fetches the values of each owner, and a full bucket of gradients goes to
/// its owner while backward goes on (with `overlap` off after it). A thread of the owner (GradientServer)
/// applies each when it arrives, whatever the others do.
///
/// Gradients are divided by the number of ranks, as is the weight decay, so that what the ranks apply in N
/// updates is what the synchronous server applies in one: tensorpack's scale_gradient. Messages go through a
/// communicator split off for them.
///
/// finish() is collective: a rank that is done goes on serving until all are, and then all fetch the same
/// values. Destroying it within steps leaves what is under way, without communicating.
///
/// Measures fetch_s (waiting for values before forward), gradients_sent, gradients_applied (buckets), and
/// staleness: how many updates an owner applied to a bucket between the fetch that a gradient was computed
/// with and its own application, as mean and as the most.
///
/// On a GPU messages carry its memory, staged by the communicator, and the owner's thread works in a stream
/// of its own; with `parameter_device` cpu the owner keeps and updates its variables in host memory.
///
/// Throws ConfigError for a backend that cannot receive from whoever is ready. Collective.
std::unique_ptr<Strategy> create_async_parameter_server(const StrategyContext& context);

}  // namespace lockstep::strategies
