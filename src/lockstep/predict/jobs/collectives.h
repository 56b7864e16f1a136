#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::predict {

enum class CollectiveKind { kAllReduce, kReduceScatter, kAllGather, kReduce, kBroadcast };

/// "all_reduce".
const char* to_string(CollectiveKind kind);

/// The kind that "all_reduce", "all-reduce" or "AllReduce" names; empty for any other.
std::optional<CollectiveKind> collective_named(std::string_view name);

enum class Algorithm {
  kRing,
  /// Recursive halving and doubling (Rabenseifner 2004).
  kHalvingDoubling,
  /// Two trees with half of the bytes each (NCCL).
  kDoubleTree,
  /// One tree, or recursive doubling: all bytes in every round.
  kBinomial,
};

/// "ring", "halving-doubling", "double tree", "binomial tree".
const char* to_string(Algorithm algorithm);

/// The work of an algorithm at a number of ranks: rounds that pay the latency one after the other, and the
/// bytes that pass the busiest link, the mean of its directions, relative to those of the buffer (of all
/// ranks together for reduce_scatter and all_gather).
struct Shape {
  double rounds = 0;
  double volume = 0;
};

/// Thakur et al. 2005, "Optimization of Collective Communication Operations in MPICH"; all zero for one rank.
Shape shape_of(CollectiveKind kind, Algorithm algorithm, int ranks);

/// The algorithm that a backend's library takes: Gloo's rings and its binomial broadcast, Open MPI's
/// recursive doubling below 8 KiB and above an all-reduce by halving and doubling, rings otherwise
/// (coll/tuned of 4.1), NCCL's ring within 8 ranks and double tree beyond for up to 4 MiB. Other backends:
/// ring.
Algorithm library_algorithm(std::string_view backend, CollectiveKind kind, int ranks, double bytes);

/// Bandwidth and latency relative to what they are.
struct LinkChange {
  double bandwidth = 1, latency = 1;
};

/// Latency of a round, and bandwidth per direction.
struct Link {
  double latency_s = 0;
  double bytes_per_s = 0;

  Link after(const LinkChange& change) const {
    return {latency_s * change.latency, bytes_per_s * change.bandwidth};
  }
};

/// Parts of a collective's time.
struct CollectiveTime {
  double latency_s = 0;
  double transfer_s = 0;

  double total_s() const { return latency_s + transfer_s; }
  CollectiveTime scaled(const Shape& from, const Shape& to) const {
    return {from.rounds > 0 ? latency_s * to.rounds / from.rounds : 0,
            from.volume > 0 ? transfer_s * to.volume / from.volume : 0};
  }
};

/// The time of a collective whose links are all alike.
CollectiveTime time_over(const Link& link, const Shape& shape, double bytes);

/// An all-reduce among hosts with `per_host` ranks each: reduce-scatter and all-gather within a host
/// (`within`: an all-reduce there), in between a ring of the hosts over `between`, a host's whole bandwidth.
CollectiveTime hierarchical_time(const CollectiveTime& within, const Link& between, int hosts, double bytes);

/// Parameters that `ranks` workers send to and fetch from `servers`, which takes as long as the busiest
/// server: it has an equal share or the largest tensor, which cannot be divided, from every worker, in each
/// direction.
CollectiveTime server_time(const Link& link, int ranks, int servers, double bytes, double largest_bytes);

}  // namespace lockstep::predict
