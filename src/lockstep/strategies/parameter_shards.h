#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/replica/flat_memory.h"
#include "lockstep/strategies/bucket_plan.h"
#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {

/// The owner of each tensor, where whole tensors of so many bytes are given out one after the other, each to
/// the rank that has the fewest bytes so far (the first of them).
std::vector<int> assign_owners(const std::vector<int64_t>& bytes, int ranks);

/// The same for the parameters of a replica, as --parameter-owners says. By parameter.
std::vector<int> choose_owners(const StrategyContext& context);

/// Owner after owner, so that each owns one stretch of memory; within it what is ready first lies first.
std::vector<size_t> order_by_owner(const std::vector<int>& owners);

/// The stretch of memory in order_by_owner that a rank owns; empty where it owns nothing.
replica::Range owned_range(const replica::FlatMemory& memory, const std::vector<int>& owners, int rank);

/// Of a bucket of plan_owned_buckets.
int owner_of(const Bucket& bucket, const std::vector<int>& owners);

/// Buckets of what one rank owns each, in the order in which they become ready: the parameter that was
/// registered first is ready last, and its bucket with it.
std::vector<Bucket> plan_owned_buckets(const replica::FlatMemory& memory, const std::vector<int>& owners,
                                       int ranks, int64_t cap_bytes);

}  // namespace lockstep::strategies
