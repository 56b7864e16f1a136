#include "lockstep/predict/jobs/collective_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/base/error.h"

namespace lockstep::predict {
namespace {

/// Rounding of a line's slope, relative to the times that the line is put through.
constexpr double kRoundedTransfer = 1e-6;

/// The constant of the line t = constant + slope * bytes with the smallest relative errors, between 0 and the
/// smallest time.
template <typename Sizes>
double constant_of_line(const Sizes& sizes) {
  double xx = 0, xy = 0, yy = 0, x = 0, y = 0, least_s = sizes.front().time_s;
  for (const auto& [bytes, time_s] : sizes) {
    const double one = 1 / time_s, slope = bytes / time_s;
    xx += one * one;
    xy += one * slope;
    yy += slope * slope;
    x += one;
    y += slope;
    least_s = std::min(least_s, time_s);
  }
  const double determinant = xx * yy - xy * xy;
  return determinant > 0 ? std::clamp((x * yy - y * xy) / determinant, 0.0, least_s) : 0;
}

}  // namespace

void CollectiveTable::add(const CollectivePoint& point) {
  if (!(point.bytes > 0) || !(point.time_s > 0) || !std::isfinite(point.time_s) || point.ranks < 2) return;
  Series& series = points_[point.kind][point.ranks];
  const auto place = std::ranges::lower_bound(series.sizes, point.bytes, {}, &Size::bytes);
  if (place != series.sizes.end() && place->bytes == point.bytes) {
    place->time_s = point.time_s;
  } else {
    series.sizes.insert(place, {point.bytes, point.time_s});
  }
  if (series.sizes.front().bytes <= kSmallBytes) {
    const Size &smallest = series.sizes.front(), &largest = series.sizes.back();
    series.latency_s = constant_of_line(series.sizes);
    // Small sizes alone have no slope that times tell: the smallest is latency but for its bytes' part.
    if (largest.bytes <= kSmallBytes)
      series.latency_s = std::min(smallest.time_s * (1 - smallest.bytes / (2 * kSmallBytes)),
                                  std::ranges::min(series.sizes, {}, &Size::time_s).time_s);
    return;
  }
  series.latency_s = assumed_latency_s(backend_, point);
}

void CollectiveTable::set_network(const Link& between_hosts, bool measured_there) {
  network_ = between_hosts;
  network_replaces_points_ = measured_there;
}

int CollectiveTable::most_ranks() const {
  int most = 0;
  for (const auto& [kind, series] : points_) most = std::max(most, series.rbegin()->first);
  return most;
}

bool CollectiveTable::latency_is_assumed() const {
  if (network_ || points_.empty()) return false;
  const std::vector<Size>& sizes = points_.begin()->second.rbegin()->second.sizes;
  return sizes.front().bytes > kSmallBytes;
}

CollectiveTime CollectiveTable::at(const ByRanks::value_type& series, CollectiveKind kind, int ranks,
                                   double bytes) const {
  const auto& [measured_ranks, points] = series;
  const std::vector<Size>& sizes = points.sizes;
  const auto above = std::ranges::lower_bound(sizes, bytes, {}, &Size::bytes);
  double time_s = 0;
  if (above == sizes.begin()) {
    // A smaller buffer costs its part of the transfer less.
    time_s = points.latency_s + (above->time_s - points.latency_s) * bytes / above->bytes;
  } else if (above == sizes.end()) {
    time_s = points.latency_s + (sizes.back().time_s - points.latency_s) * bytes / sizes.back().bytes;
  } else {
    const Size& below = *(above - 1);
    const double share = std::log(bytes / below.bytes) / std::log(above->bytes / below.bytes);
    time_s = below.time_s * std::pow(above->time_s / below.time_s, share);
  }
  const CollectiveTime there{std::min(points.latency_s, time_s), time_s - std::min(points.latency_s, time_s)};
  const auto shape_at = [&](int count) {
    return shape_of(kind, library_algorithm(backend_, kind, count, bytes), count);
  };
  return there.scaled(shape_at(measured_ranks), shape_at(ranks));
}

CollectiveTime CollectiveTable::measured(const ByRanks& series, CollectiveKind kind, int ranks,
                                         double bytes) const {
  const auto above = series.lower_bound(ranks);
  if (above == series.end()) return at(*series.rbegin(), kind, ranks, bytes);
  if (above->first == ranks || above == series.begin()) return at(*above, kind, ranks, bytes);
  const auto& below = *std::prev(above);
  const double share = std::log2(static_cast<double>(ranks) / below.first) /
                       std::log2(static_cast<double>(above->first) / below.first);
  const CollectiveTime low = at(below, kind, ranks, bytes), high = at(*above, kind, ranks, bytes);
  return {std::lerp(low.latency_s, high.latency_s, share), std::lerp(low.transfer_s, high.transfer_s, share)};
}

CollectiveTime CollectiveTable::points_time(CollectiveKind kind, int ranks, double bytes) const {
  const auto own = points_.find(kind);
  if (own != points_.end()) return measured(own->second, kind, ranks, bytes);
  const auto of = [&](CollectiveKind other) -> std::optional<CollectiveTime> {
    const auto found = points_.find(other);
    if (found == points_.end()) return std::nullopt;
    return measured(found->second, other, ranks, bytes);
  };
  using enum CollectiveKind;
  const auto all_reduce = of(kAllReduce), scatter = of(kReduceScatter), gather = of(kAllGather);
  const auto sum = [](const std::optional<CollectiveTime>& a, const std::optional<CollectiveTime>& b) {
    const CollectiveTime one = a ? *a : *b, other = b ? *b : *a;
    return CollectiveTime{one.latency_s + other.latency_s, one.transfer_s + other.transfer_s};
  };
  CollectiveTime both;
  if (all_reduce) {
    both = *all_reduce;
  } else if (scatter || gather) {
    both = sum(scatter, gather);
  } else {
    both = sum(of(kReduce), of(kBroadcast));
  }
  if (kind == kAllReduce) return both;
  return {both.latency_s / 2, both.transfer_s / 2};
}

CollectiveTime CollectiveTable::time(CollectiveKind kind, const Placement& placement, double bytes,
                                     const LinkChange& change) const {
  if (placement.ranks <= 1 || bytes <= 0) return {};
  if (empty()) throw ConfigError("nothing is known about the cost of collectives");
  const bool over_network = network_ && (placement.hosts() > 1 || points_.empty());
  CollectiveTime library;
  if (!points_.empty() && !(over_network && network_replaces_points_))
    library = points_time(kind, placement.ranks, bytes);
  if (!over_network) return {library.latency_s * change.latency, library.transfer_s / change.bandwidth};
  const Link network = network_->after(change);
  if (backend_ == "nccl" && placement.per_host > 1 && placement.hosts() > 1 && !points_.empty()) {
    const CollectiveTime whole =
        hierarchical_time(points_time(CollectiveKind::kAllReduce, placement.per_host, bytes), network,
                          placement.hosts(), bytes);
    return kind == CollectiveKind::kAllReduce ? whole
                                              : CollectiveTime{whole.latency_s / 2, whole.transfer_s / 2};
  }
  const CollectiveTime wire = time_over(
      network, shape_of(kind, library_algorithm(backend_, kind, placement.ranks, bytes), placement.ranks),
      bytes);
  return {std::max(library.latency_s, wire.latency_s), std::max(library.transfer_s, wire.transfer_s)};
}

Link CollectiveTable::effective_link(CollectiveKind kind, const Placement& placement, double bytes) const {
  if (network_ && placement.hosts() > 1) return *network_;
  const Shape shape =
      shape_of(kind, library_algorithm(backend_, kind, placement.ranks, bytes), placement.ranks);
  const CollectiveTime cost = time(kind, placement, bytes);
  const bool has_transfer = cost.transfer_s > kRoundedTransfer * cost.latency_s;
  return {cost.latency_s / shape.rounds,
          has_transfer ? shape.volume * bytes / cost.transfer_s : std::numeric_limits<double>::infinity()};
}

double assumed_latency_s(std::string_view backend, const CollectivePoint& point) {
  const Algorithm algorithm = library_algorithm(backend, point.kind, point.ranks, point.bytes);
  return std::min(point.time_s / 2, shape_of(point.kind, algorithm, point.ranks).rounds * kAssumedRound_s);
}

double network_loss(const CollectiveTable& idle, const std::vector<CollectivePoint>& computing,
                    const Placement& placement) {
  double measured_s = 0, idle_s = 0;
  for (const CollectivePoint& point : computing) {
    if (point.ranks > idle.most_ranks()) continue;
    measured_s += point.time_s;
    idle_s += idle.time(point.kind, {point.ranks, std::min(placement.per_host, point.ranks)}, point.bytes)
                  .total_s();
  }
  return idle_s > 0 ? std::clamp(measured_s / idle_s - 1, 0.0, 3.0) : 0;
}

}  // namespace lockstep::predict
