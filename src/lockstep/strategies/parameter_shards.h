#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/replica/flat_memory.h"
#include "lockstep/strategies/buckets.h"
#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {

/// Assigns tensors of the given sizes to ranks: one after the other, each to the rank with the fewest bytes
/// so far (the first one of these). Returns the owner of each tensor.
std::vector<int> assign_owners(const std::vector<int64_t>& bytes, int ranks);

/// Assigns the parameters of a replica as --parameter-owners says. Returns the owner of each parameter.
std::vector<int> choose_owners(const StrategyContext& context);

/// Parameters sorted by owner, so that each owner has one range of memory; within it, in the reverse order of
/// registration.
std::vector<size_t> order_by_owner(const std::vector<int>& owners);

/// The range that a rank owns in memory with the order of order_by_owner(); empty if it owns nothing.
replica::Range owned_range(const replica::FlatMemory& memory, const std::vector<int>& owners, int rank);

/// The owner of a bucket of plan_owned_buckets().
int owner_of(const Bucket& bucket, const std::vector<int>& owners);

/// Divides the range of each owner into buckets, and returns all of them in the order in which they become
/// ready: the parameter that was registered first is ready last, and so is its bucket.
std::vector<Bucket> plan_owned_buckets(const replica::FlatMemory& memory, const std::vector<int>& owners,
                                       int ranks, int64_t cap_bytes);

}  // namespace lockstep::strategies
