#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/predict/jobs/collectives.h"

namespace lockstep::predict {

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

}  // namespace lockstep::predict
