#include "lockstep/predict/jobs/collective_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/csv_table.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/base/units.h"
#include "lockstep/collectives/record.h"

namespace lockstep::predict {
namespace {

constexpr std::array kKindNames{"all_reduce", "reduce_scatter", "all_gather", "reduce", "broadcast"};

/// Bounds of coll/tuned and of NCCL's choice, in bytes.
constexpr double kMpiSmallest = 8192, kNcclTreeMost = 4 << 20;

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

constexpr const char* kTableAdvice =
    "Give a file of 'lockstep collectives --json FILE' (with --import and --ranks from what OSU printed), a "
    "JSON list of {ranks, collective, bytes, time_s}, or a comma-separated table with these columns.";

std::vector<CollectivePoint> points_of_json(const std::string& text, const std::string& name) {
  const nlohmann::json document = parse_json(text, name, kTableAdvice);
  const JsonNode root(document, name);
  std::vector<CollectivePoint> points;
  for (const JsonNode& row : (document.is_object() ? root["collectives"] : root).elements()) {
    // Kinds that no strategy uses.
    const auto kind = collective_named(row["collective"].text());
    if (kind) points.push_back({row["ranks"].count(1), *kind, row["bytes"].number(), row["time_s"].number()});
  }
  return points;
}

using Note = std::function<void(const std::string&)>;

std::vector<CollectivePoint> points_of_rows(const std::vector<collectives::Row>& rows,
                                            const std::string& name, const Note& note) {
  std::vector<CollectivePoint> points;
  std::set<std::string> others;
  int64_t wrong = 0;
  for (const char* place : {collectives::kOutOfPlace, collectives::kInPlace}) {
    for (const collectives::Row& row : rows) {
      if (row.place != place) continue;
      const auto kind = collective_named(row.collective);
      others.insert(fmt::format("{} of {}", row.collective, counted(row.ranks, "rank")));
      if (row.is_wrong()) ++wrong;
      if (!kind || row.ranks < 2 || row.is_wrong() || row.computing || row.at_a_time > 1) continue;
      const CollectivePoint point{row.ranks, *kind, static_cast<double>(row.bytes), row.median_s};
      const bool known = std::ranges::any_of(points, [&](const CollectivePoint& other) {
        return other.ranks == point.ranks && other.kind == point.kind && other.bytes == point.bytes;
      });
      if (!known) points.push_back(point);
    }
  }
  if (wrong > 0) note(fmt::format("'{}': {} with wrong results left out", name, counted(wrong, "row")));
  const bool direct = std::ranges::any_of(
      points, [](const CollectivePoint& point) { return point.kind == CollectiveKind::kAllReduce; });
  if (!points.empty() && !direct)
    note(fmt::format("'{}' has no all_reduce: its costs follow from {}", name, fmt::join(others, ", ")));
  if (!points.empty()) return points;
  throw ConfigError(
      fmt::format("'{}' has no all_reduce of two ranks or more; it has {}", name, fmt::join(others, ", ")),
      kTableAdvice);
}

std::vector<CollectivePoint> points_of_record(const std::string& text, const std::string& name,
                                              const std::string& backend, const Note& note) {
  std::vector<collectives::Row> rows = collectives::from_json(text, name).rows;
  std::set<std::string> backends;
  for (const collectives::Row& row : rows) backends.insert(row.backend);
  if (backends.size() > 1 && !backends.contains(backend)) {
    throw ConfigError(fmt::format("'{}' has collectives over {}, and the job ran over {}", name,
                                  fmt::join(backends, ", "), backend),
                      "Give a file of one of them.");
  }
  if (backends.size() > 1)
    std::erase_if(rows, [&](const collectives::Row& row) { return row.backend != backend; });
  return points_of_rows(rows, name, note);
}

/// Whether the first line names columns, one of them `bytes`.
bool is_csv(std::string_view text) {
  const std::vector<std::string> columns = split_at_commas(text.substr(0, text.find('\n')));
  return columns.size() > 1 && std::ranges::find(columns, "bytes") != columns.end();
}

/// Ranks of a row without a column of their own begin its `setup`: "8 ranks, 1 node".
int ranks_of(const CsvTable& table) {
  for (const char* column : {"ranks", "gpus", "workers"})
    if (table.has(column)) return table.count(column);
  const std::string setup = table.text("setup");
  const auto ranks = parse_whole(setup.substr(0, setup.find(' ')), {.least = 1, .most = 1e7});
  if (!ranks) table.refuse("neither ranks nor setup says how many ranks took part");
  return static_cast<int>(*ranks);
}

std::vector<CollectivePoint> points_of_csv(const std::string& text, const std::string& name) {
  CsvTable table(text, name, kTableAdvice);
  const std::string_view kind_column = table.first_of({"collective", "operation"});
  const std::string_view time_column = table.first_of({"time_s", "time_us", "out_of_place_us"});
  std::vector<CollectivePoint> points;
  for (size_t row = 0; row < table.size(); ++row) {
    table.select(row);
    // What follows is the type and how it is reduced: "all_reduce float sum".
    const std::string kind_text = table.text(kind_column);
    const auto kind = collective_named(kind_text.substr(0, kind_text.find(' ')));
    const auto bytes = table.number("bytes"), time = table.number(time_column);
    if (kind && bytes && time)
      points.push_back({ranks_of(table), *kind, *bytes, *time * (time_column == "time_s" ? 1 : 1e-6)});
  }
  return points;
}

std::vector<CollectivePoint> points_of_text(const std::string& text, const std::string& name,
                                            const Note& note) {
  collectives::ImportedText imported;
  try {
    imported = collectives::import_text(text, name, {.usual_collective = "all_reduce"});
  } catch (const Error& error) {
    throw ConfigError(
        fmt::format("'{}' has no times of collectives of two ranks or more: {}", name, error.what()),
        kTableAdvice);
  }
  for (const std::string& sentence : imported.notes) note(sentence);
  const auto again = std::erase_if(imported.rows, [](const auto& row) { return row.backend.ends_with(')'); });
  if (again > 0)
    note(fmt::format("'{}': {} of tests that were run again left out", name,
                     counted(static_cast<int64_t>(again), "row")));
  return points_of_rows(imported.rows, name, note);
}

}  // namespace

const char* to_string(CollectiveKind kind) {
  return kKindNames[static_cast<size_t>(kind)];
}

std::optional<CollectiveKind> collective_named(std::string_view name) {
  const auto letters = [](std::string_view text) {
    std::string kept;
    for (const char c : text) {
      if (std::isalpha(static_cast<unsigned char>(c)) != 0)
        kept += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return kept;
  };
  for (size_t i = 0; i < kKindNames.size(); ++i) {
    if (letters(name) == letters(kKindNames[i])) return static_cast<CollectiveKind>(i);
  }
  return std::nullopt;
}

const char* to_string(Algorithm algorithm) {
  constexpr std::array kNames{"ring", "halving-doubling", "double tree", "binomial tree"};
  return kNames[static_cast<size_t>(algorithm)];
}

Shape shape_of(CollectiveKind kind, Algorithm algorithm, int ranks) {
  if (ranks <= 1) return {};
  const double n = ranks, stages = std::ceil(std::log2(n));
  const bool one_way = kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllGather;
  const bool rooted = kind == CollectiveKind::kReduce || kind == CollectiveKind::kBroadcast;
  // All that an all-reduce does in two halves, of which the one-way collectives are one.
  const double halves = one_way ? 1 : 2;
  switch (algorithm) {
    case Algorithm::kRing:
      return {halves * (n - 1), halves * (n - 1) / n};
    case Algorithm::kHalvingDoubling: {
      // Ranks beyond a power of two exchange halves with a neighbor, send it their sum, and take the result.
      const double power = std::bit_floor(static_cast<unsigned>(ranks));
      const Shape folding = n > power ? Shape{3, 0.5 + 0.25 + 0.5} : Shape{};
      return {halves * std::log2(power) + folding.rounds, halves * (power - 1) / power + folding.volume};
    }
    case Algorithm::kDoubleTree:
      return {(rooted ? 1 : 2) * stages, rooted ? 1.0 : halves};
    case Algorithm::kBinomial:
      return {stages, one_way ? 1 : stages};
  }
  return {};
}

Algorithm library_algorithm(std::string_view backend, CollectiveKind kind, int ranks, double bytes) {
  const bool rooted = kind == CollectiveKind::kReduce || kind == CollectiveKind::kBroadcast;
  if (backend == "gloo") return kind == CollectiveKind::kBroadcast ? Algorithm::kBinomial : Algorithm::kRing;
  if (backend == "mpi") {
    if (rooted) return Algorithm::kDoubleTree;
    if (bytes < kMpiSmallest) return Algorithm::kBinomial;
    return kind == CollectiveKind::kAllReduce ? Algorithm::kHalvingDoubling : Algorithm::kRing;
  }
  if (backend == "nccl") {
    const bool tree = kind == CollectiveKind::kAllReduce && ranks > 8 && bytes <= kNcclTreeMost;
    return tree || rooted ? Algorithm::kDoubleTree : Algorithm::kRing;
  }
  return Algorithm::kRing;
}

CollectiveTime time_over(const Link& link, const Shape& shape, double bytes) {
  return {shape.rounds * link.latency_s, shape.volume * bytes / link.bytes_per_s};
}

CollectiveTime hierarchical_time(const CollectiveTime& within, const Link& between, int hosts, double bytes) {
  const CollectiveTime among =
      time_over(between, shape_of(CollectiveKind::kAllReduce, Algorithm::kRing, hosts), bytes);
  return {within.latency_s + among.latency_s, within.transfer_s + among.transfer_s};
}

CollectiveTime server_time(const Link& link, int ranks, int servers, double bytes, double largest_bytes) {
  if (ranks <= 1) return {};
  const double busiest = std::max(bytes / std::max(servers, 1), largest_bytes);
  return {2 * link.latency_s, 2 * busiest * ranks / link.bytes_per_s};
}

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

std::vector<CollectivePoint> read_collectives(const std::filesystem::path& path, const std::string& backend,
                                              const std::function<void(const std::string&)>& note) {
  const std::string text = read_file(path), name = path.string();
  const size_t begin = text.find_first_not_of(" \t\r\n");
  // "[1,0]<stdout>:" is no list of rows.
  const size_t second = text.find_first_not_of(" \t\r\n", begin + 1);
  const bool json =
      begin != std::string::npos &&
      (text[begin] == '{' || (text[begin] == '[' && second != text.npos && text[second] == '{'));
  std::vector<CollectivePoint> points = collectives::is_record(text)
                                            ? points_of_record(text, name, backend, note)
                                        : json         ? points_of_json(text, name)
                                        : is_csv(text) ? points_of_csv(text, name)
                                                       : points_of_text(text, name, note);
  std::erase_if(points, [](const CollectivePoint& point) { return point.bytes == 0; });
  for (const CollectivePoint& point : points) {
    if (std::isfinite(point.time_s) && point.time_s > 0 && point.bytes > 0) continue;
    throw ConfigError(fmt::format("'{}': {} of {:.0f} bytes at {} ranks took {} s, which is no time", name,
                                  to_string(point.kind), point.bytes, point.ranks, point.time_s),
                      kTableAdvice);
  }
  std::erase_if(points, [](const CollectivePoint& point) { return point.ranks < 2; });
  if (points.empty())
    throw ConfigError(fmt::format("'{}' has no times of collectives of two ranks or more", name),
                      kTableAdvice);
  return points;
}

}  // namespace lockstep::predict
