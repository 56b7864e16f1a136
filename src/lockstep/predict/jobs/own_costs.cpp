#include "lockstep/predict/jobs/own_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "lockstep/predict/jobs/overlap.h"

namespace lockstep::predict {
namespace {

using results::BucketTimes;
using results::Run;

struct Cost {
  double sum_s = 0;
  int count = 0;
};
using CostBySize = std::map<int64_t, Cost>;

/// Puts collectives that ran at the same time, in lanes, in turn: in their time each moves its bytes.
void put_in_turn(std::vector<BucketTimes>& buckets) {
  const double instant_s = 1e-6;
  for (auto first = buckets.begin(), next = first; first != buckets.end(); first = next) {
    double begin_s = std::max(first->started_s, first->all_arrived_s), end_s = first->ended_s;
    double bytes = static_cast<double>(first->bytes);
    for (next = first + 1; next != buckets.end() && next->started_s < end_s - instant_s; ++next) {
      end_s = std::max(end_s, next->ended_s);
      bytes += static_cast<double>(next->bytes);
    }
    if (next == first + 1 || bytes <= 0) continue;
    const double per_byte_s = std::max(0.0, end_s - begin_s) / bytes;
    for (; first != next; ++first) {
      first->all_arrived_s = begin_s;
      first->ended_s = begin_s += per_byte_s * static_cast<double>(first->bytes);
    }
  }
}

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

/// A collective on cores that compute, of which `left_s` was left when its turn came.
struct SharedCoreTime {
  double time_s, left_s, bytes;
  Shape shape;
};

/// Logarithms of the link's seconds per byte, of 1 + phi_n, and of the wait for a turn of the processor.
struct SharedCoreModel {
  std::array<double, 3> logs;

  double network_loss() const { return std::expm1(logs[1]); }
  double turn_s() const { return std::exp(logs[2]); }
  double cost_s(const Shape& shape, double bytes) const {
    return kAssumedRound_s * shape.rounds + std::exp(logs[0]) * shape.volume * bytes;
  }
  double time_s(const SharedCoreTime& of) const {
    const QueuedCollective collective{.cost_s = cost_s(of.shape, of.bytes),
                                      .late_s = turn_s() * of.shape.rounds};
    return busy_time(collective, 0, of.left_s, {.network = network_loss()}).until_s;
  }
};

/// Usual values, and standard deviations of logarithms around them: a thread that does nothing but move bytes
/// has part of a core, and waits in each round for the end of a time slice of Linux (0.7 ms * (1 + log2 of
/// the processors)).
constexpr double kUsualNetworkLoss = 0.5, kUsualTurn_s = 1.4e-3;
constexpr double kNetworkLossDeviation = 0.2, kTurnDeviation = 0.7, kTimeDeviation = 0.15;

/// The most probable model of threads that move bytes in `core_share` of their time, by a search along each
/// of its numbers.
SharedCoreModel shared_core_model(const std::vector<SharedCoreTime>& times, double core_share) {
  double bytes = 0, all_s = 0;
  for (const SharedCoreTime& time : times) {
    bytes += time.shape.volume * time.bytes;
    all_s += time.time_s;
  }
  const SharedCoreModel usual{
      {std::log(all_s / bytes), std::log1p(core_share * kUsualNetworkLoss), std::log(kUsualTurn_s)}};
  const auto badness = [&](const SharedCoreModel& model) {
    if (model.network_loss() < 0) return std::numeric_limits<double>::infinity();
    double sum = std::pow((model.logs[1] - usual.logs[1]) / kNetworkLossDeviation, 2) +
                 std::pow((model.logs[2] - usual.logs[2]) / kTurnDeviation, 2);
    for (const SharedCoreTime& time : times)
      sum += std::pow(std::log(model.time_s(time) / time.time_s) / kTimeDeviation, 2);
    return sum;
  };
  SharedCoreModel best = usual;
  double least = badness(best);
  for (double step = 1; step > 1e-3; step /= 2) {
    for (bool better = true; better;) {
      better = false;
      for (double& number : best.logs) {
        for (const double change : {step, -step}) {
          const double before = std::exchange(number, number + change);
          const double found = badness(best);
          if (found < least) {
            least = found;
            better = true;
          } else {
            number = before;
          }
        }
      }
    }
  }
  return best;
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
      for (double BucketTimes::*time : {&BucketTimes::ready_s, &BucketTimes::started_s,
                                        &BucketTimes::all_arrived_s, &BucketTimes::ended_s})
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

double core_share_of(const Run& run) {
  if (!run.resources || !(run.breakdown->communication_s > 0)) return 1;
  const double core_s =
      run.resources->communication_threads.value_or(0) * run.threads_per_rank * run.breakdown->mean.step_s;
  return core_s > 0 ? std::min(core_s / run.breakdown->communication_s, 1.0) : 1;
}

OwnCosts own_costs(const results::Run& run, const StrategyShape& shape, bool fills_cores) {
  std::vector<BucketTimes> buckets = mean_buckets(run);
  put_in_turn(buckets);
  const results::PhaseTimes& mean = run.breakdown->mean;
  double computed_s = mean.input_s + mean.forward_s + mean.backward_s;
  std::map<CollectiveKind, CostBySize> kinds;
  std::vector<SharedCoreTime> times;
  double free_s = 0;
  for (size_t k = 0; k < buckets.size(); ++k) {
    const BucketTimes& bucket = buckets[k];
    if (bucket.bytes <= 0) continue;
    const CollectiveKind kind = bucket_kind(run, shape, k, buckets.size());
    Cost& cost = kinds[kind][bucket.bytes];
    const double begin_s = std::max(bucket.all_arrived_s, free_s);
    const double time_s = std::max(0.0, bucket.ended_s - begin_s);
    cost.sum_s += time_s;
    ++cost.count;
    free_s = std::max(free_s, bucket.ended_s);
    // Ranks compute when they have fetched all values.
    if (shape.fetches_before_forward && kind == shape.values) computed_s += time_s;
    const auto bytes = static_cast<double>(bucket.bytes);
    const Algorithm algorithm = library_algorithm(run.backend, kind, run.ranks, bytes);
    if (time_s > 0)
      times.push_back(
          {time_s, std::max(0.0, computed_s - begin_s), bytes, shape_of(kind, algorithm, run.ranks)});
  }
  OwnCosts own;
  const bool shares_cores = fills_cores && !times.empty();
  SharedCoreModel model{};
  if (shares_cores) {
    model = shared_core_model(times, core_share_of(run));
    own.network_loss = model.network_loss();
    own.turn_s = model.turn_s();
    for (const SharedCoreTime& time : times)
      own.late_s += std::min(own.turn_s * time.shape.rounds, time.left_s);
  }
  for (auto& [kind, costs] : kinds) {
    if (!shares_cores) put_onto_line(costs, run, kind);
    for (const auto& [size, cost] : costs) {
      const auto bytes = static_cast<double>(size);
      const Shape moved = shape_of(kind, library_algorithm(run.backend, kind, run.ranks, bytes), run.ranks);
      own.points.push_back(
          {run.ranks, kind, bytes, shares_cores ? model.cost_s(moved, bytes) : cost.sum_s / cost.count});
    }
  }
  return own;
}

}  // namespace lockstep::predict
