#include "lockstep/predict/jobs/own_costs.h"

#include <algorithm>
#include <map>

namespace lockstep::predict {
namespace {

using results::BucketTimes;
using results::Run;

struct Cost {
  double sum_s = 0;
  int count = 0;
};
using CostBySize = std::map<int64_t, Cost>;

void put_onto_line(CostBySize& costs, const Run& run, CollectiveKind kind) {
  const auto smallest = static_cast<double>(costs.begin()->first);
  if (smallest <= kSmallBytes) return;
  double all_s = 0, bytes = 0, count = 0;
  for (const auto& [size, cost] : costs) {
    all_s += cost.sum_s;
    bytes += static_cast<double>(size) * cost.count;
    count += cost.count;
  }
  const double latency_s = assumed_latency_s(run.backend, {run.ranks, kind, smallest, all_s / count});
  for (auto& [size, cost] : costs)
    cost.sum_s = cost.count * (latency_s + (all_s - count * latency_s) / bytes * static_cast<double>(size));
}

}  // namespace

std::vector<BucketTimes> mean_buckets(const Run& run) {
  std::vector<BucketTimes> mean;
  const auto& ranks = run.breakdown->ranks;
  size_t count = ranks.front().buckets.size();
  for (const auto& rank : ranks) count = std::min(count, rank.buckets.size());
  for (size_t k = 0; k < count; ++k) {
    BucketTimes sum{.bytes = ranks.front().buckets[k].bytes};
    for (const auto& rank : ranks) {
      for (double BucketTimes::*time :
           {&BucketTimes::ready_s, &BucketTimes::all_arrived_s, &BucketTimes::ended_s})
        sum.*time += rank.buckets[k].*time / static_cast<double>(ranks.size());
    }
    mean.push_back(sum);
  }
  return mean;
}

CollectiveKind bucket_kind(const Run& run, const StrategyShape& shape, size_t index, size_t count) {
  if (run.recorded && index < run.recorded->collectives.size())
    return collective_named(run.recorded->collectives[index].kind).value_or(CollectiveKind::kAllReduce);
  if (!shape.values) return shape.gradients.value_or(CollectiveKind::kAllReduce);
  const bool first_half = index < count / 2;
  return first_half == shape.fetches_before_forward ? *shape.values : *shape.gradients;
}

std::vector<CollectivePoint> own_costs(const Run& run, const StrategyShape& shape) {
  const std::vector<BucketTimes> buckets = mean_buckets(run);
  std::map<CollectiveKind, CostBySize> kinds;
  double free_s = 0;
  for (size_t k = 0; k < buckets.size(); ++k) {
    const BucketTimes& bucket = buckets[k];
    if (bucket.bytes <= 0) continue;
    Cost& cost = kinds[bucket_kind(run, shape, k, buckets.size())][bucket.bytes];
    cost.sum_s += std::max(0.0, bucket.ended_s - std::max(bucket.all_arrived_s, free_s));
    ++cost.count;
    free_s = std::max(free_s, bucket.ended_s);
  }
  std::vector<CollectivePoint> points;
  for (auto& [kind, costs] : kinds) {
    put_onto_line(costs, run, kind);
    for (const auto& [bytes, cost] : costs)
      points.push_back({run.ranks, kind, static_cast<double>(bytes), cost.sum_s / cost.count});
  }
  return points;
}

}  // namespace lockstep::predict
