#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// A measured time of one collective.
struct CollectivePoint {
  int ranks = 0;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  double bytes = 0;
  double time_s = 0;
};

/// Ranks of a job and how many of them share a host.
struct Placement {
  int ranks = 1;
  int per_host = 1;

  int hosts() const { return (ranks + per_host - 1) / per_host; }
};

/// Costs of collectives at any number of ranks and bytes, from measured points, from a network, or both.
///
/// At a measured number of ranks, points are interpolated piecewise on logarithms of bytes and time; below
/// the smallest size the time stays, above the largest it grows with the bytes. A point splits into latency
/// (the constant of a least-squares line over that number's points; without small ones, kAssumedRound_s per
/// round) and transfer, and both are carried to another number of ranks by the shape of the library's
/// algorithm, from the measured numbers on both sides. A kind without points is derived: reduce_scatter and
/// all_gather are halves of an all_reduce, reduce and broadcast one of its ways.
class CollectiveTable {
 public:
  /// `backend` decides which algorithms are taken.
  explicit CollectiveTable(std::string backend) : backend_(std::move(backend)) {}

  /// Points with times or bytes that are not above 0 are left out.
  void add(const CollectivePoint& point);
  /// Joins hosts by a network. `measured_there`: the points were measured over hosts, so the network replaces
  /// them; otherwise they are what the library itself costs, and the slower of both counts.
  void set_network(const Link& between_hosts, bool measured_there);

  /// Whether there is anything to compute a time from.
  bool empty() const { return points_.empty() && !network_; }
  bool has_points() const { return !points_.empty(); }
  const std::optional<Link>& network() const { return network_; }
  const std::string& backend() const { return backend_; }
  /// The largest number of ranks that was measured; 0: none was.
  int most_ranks() const;
  /// Whether latency had to be assumed, for want of points at most kSmallBytes.
  bool latency_is_assumed() const;

  /// With a change of the links: of the network where it is used, or else of what was measured. Throws
  /// ConfigError for an empty table.
  CollectiveTime time(CollectiveKind kind, const Placement& placement, double bytes,
                      const LinkChange& change = {}) const;
  /// A link that would give the measured times at this size and number of ranks, or the network; of infinite
  /// bandwidth where larger sizes take no longer.
  Link effective_link(CollectiveKind kind, const Placement& placement, double bytes) const;

 private:
  struct Size {
    double bytes;
    double time_s;
  };
  struct Series {
    /// Ascending.
    std::vector<Size> sizes;
    double latency_s = 0;
  };
  using ByRanks = std::map<int, Series>;

  CollectiveTime measured(const ByRanks& series, CollectiveKind kind, int ranks, double bytes) const;
  CollectiveTime at(const ByRanks::value_type& series, CollectiveKind kind, int ranks, double bytes) const;
  CollectiveTime points_time(CollectiveKind kind, int ranks, double bytes) const;

  std::string backend_;
  std::map<CollectiveKind, ByRanks> points_;
  std::optional<Link> network_;
  bool network_replaces_points_ = false;
};

/// phi_n, how much longer collectives take while ranks compute: `computing` against the table's own times,
/// which were measured without; 0 to 3, and 0 where the table has no number of ranks near.
double network_loss(const CollectiveTable& idle, const std::vector<CollectivePoint>& computing,
                    const Placement& placement);

/// Latency of a round where the points cannot tell.
inline constexpr double kAssumedRound_s = 20e-6;
/// Sizes up to this tell it.
inline constexpr double kSmallBytes = 1 << 16;

/// Latency of a collective without points that tell it: kAssumedRound_s per round of the library's algorithm,
/// at most half of the time.
double assumed_latency_s(std::string_view backend, const CollectivePoint& point);

/// Reads measured collectives: a file of `lockstep collectives --json`, a JSON list of {ranks, collective,
/// bytes, time_s}, alone or under the key `collectives`, a comma-separated table with these columns (or those
/// of data/published/sources/collectives_oci.csv), or the text that nccl-tests prints. Of measured rows those
/// one at a time and beside no computing count, out of place where they were measured so; of several backends
/// those over `backend`; none whose results were wrong. Of a test that was run again, the first one counts.
/// Rows left out are told to `note`, as sentences. Throws ConfigError that names the file and what it has for
/// one without any, for a text whose bandwidths contradict it, and for times that are not above 0.
std::vector<CollectivePoint> read_collectives(const std::filesystem::path& path, const std::string& backend,
                                              const std::function<void(const std::string&)>& note);

}  // namespace lockstep::predict
