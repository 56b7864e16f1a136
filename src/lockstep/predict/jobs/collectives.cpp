#include "lockstep/predict/jobs/collectives.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cmath>

namespace lockstep::predict {
namespace {

constexpr std::array kKindNames{"all_reduce", "reduce_scatter", "all_gather", "reduce", "broadcast"};

/// Bounds of coll/tuned and of NCCL's choice, in bytes.
constexpr double kMpiSmallest = 8192, kNcclTreeMost = 4 << 20;

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

}  // namespace lockstep::predict
