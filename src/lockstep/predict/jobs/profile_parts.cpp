#include <algorithm>
#include <cmath>

#include "lockstep/base/units.h"
#include "lockstep/measure/series.h"
#include "lockstep/predict/jobs/job_profile.h"
#include "lockstep/results/record/setup.h"

namespace lockstep::predict {
namespace {

bool has(const std::string& options, const char* option) {
  return options.find(option) != std::string::npos;
}

constexpr double kTailShare = 0.05, kHeaviestTail = 0.4;
/// Values beyond the threshold from which the tail's shape is estimated.
constexpr size_t kFewestInTail = 10;
/// Halvings of the interval in which a maximum lies.
constexpr int kHalvings = 20;

struct WeightedPart {
  double value;
  double weight;
};

/// The distribution of a host's part as points, dense both in its middle and where the largest of `hosts`
/// comes from.
std::vector<WeightedPart> host_parts(const Spread& host, int hosts) {
  constexpr int kCells = 24;
  std::vector<double> ends;
  for (int i = 0; i <= kCells; ++i) {
    const double share = static_cast<double>(i) / kCells;
    ends.push_back(share);
    ends.push_back(std::pow(share, 1.0 / hosts));
  }
  std::ranges::sort(ends);
  std::vector<WeightedPart> parts;
  for (size_t i = 1; i < ends.size(); ++i) {
    if (ends[i] > ends[i - 1])
      parts.push_back({host.quantile((ends[i] + ends[i - 1]) / 2), ends[i] - ends[i - 1]});
  }
  return parts;
}

constexpr size_t kMostBuckets = 100'000;
/// Rounding of sums of bytes, relative to them.
constexpr double kRoundedBytes = 1e-9;

}  // namespace

std::optional<StrategyShape> strategy_shape(const std::string& strategy, const std::string& options) {
  using enum CollectiveKind;
  if (strategy == results::kSingle || strategy == results::kIndependent)
    return StrategyShape{.coupled = strategy == results::kSingle};
  if (strategy == "ddp") return StrategyShape{.gradients = kAllReduce};
  if (strategy == "horovod") return StrategyShape{.gradients = kAllReduce, .has_buckets = false};
  if (strategy == "bsp")
    return StrategyShape{
        .gradients = kAllReduce, .overlaps = false, .per_tensor = true, .has_buckets = false};
  if (strategy == "local_sgd")
    return StrategyShape{
        .gradients = kAllReduce,
        .overlaps = false,
        .has_buckets = false,
        .has_wire = false,
        .steps_alone = static_cast<int>(results::option_number(options, "--sync-every").value_or(1))};
  if (strategy == "data_parallel")
    return StrategyShape{.one_process = true, .has_buckets = false, .has_wire = false};
  StrategyShape shape{.overlaps = !has(options, "--overlap off"), .updates_on_arrival = true};
  if (strategy == "replicated") {
    shape.gradients = kAllReduce;
    // Nothing overlaps where the host factors gradients.
    if (has(options, "--wire powersgd")) shape.overlaps = shape.updates_on_arrival = false;
  } else if (strategy == "sharded" || strategy == "zero1" || strategy == "zero2" || strategy == "zero3" ||
             strategy == "fsdp") {
    const bool as_said = strategy == "sharded" && has(options, "--shard parameters");
    shape.has_wire = false;
    shape.gradients = kReduceScatter;
    shape.values = kAllGather;
    shape.divides_update = true;
    shape.gathers_for_passes = as_said || strategy == "zero3" || strategy == "fsdp";
    shape.has_buckets = !shape.gathers_for_passes;
  } else if (strategy == "parameter_server") {
    shape.has_wire = false;
    shape.gradients = kReduce;
    shape.values = kBroadcast;
    shape.fetches_before_forward = true;
    shape.has_servers = has(options, "--consistency async");
    shape.coupled = !shape.has_servers;
    shape.one_server = has(options, "--parameter-owners rank0");
    shape.divides_update = !shape.one_server && !shape.has_servers;
  } else {
    return std::nullopt;
  }
  return shape;
}

double wire_share(const std::string& strategy, const std::string& options) {
  const bool exchanges_half = has(options, "--exchange nccl16") || has(options, "--exchange asa16");
  if (strategy == "bsp" && exchanges_half) return 0.5;
  const bool wire_is_half = has(options, "--wire bf16") || has(options, "--wire fp16");
  return wire_is_half && strategy_shape(strategy, options).value_or(StrategyShape{}).has_wire ? 0.5 : 1;
}

Spread::Spread(std::vector<double> samples) : sorted_(std::move(samples)) {
  if (sorted_.empty()) return;
  std::ranges::sort(sorted_);
  threshold_ = measure::percentile_of_sorted(sorted_, 100 * (1 - kTailShare));
  double mean = 0, square = 0;
  size_t count = 0;
  for (const double value : sorted_) {
    if (value <= threshold_) continue;
    const double excess = value - threshold_;
    mean += excess;
    square += excess * excess;
    ++count;
  }
  if (count == 0) return;
  mean /= static_cast<double>(count);
  scale_ = mean;
  const double variance = square / static_cast<double>(count) - mean * mean;
  if (count < kFewestInTail || !(variance > 0)) return;
  shape_ = std::clamp((1 - mean * mean / variance) / 2, -0.5, kHeaviestTail);
  scale_ = mean * (1 - shape_);
}

Spread Spread::times(double factor) const {
  Spread result = *this;
  for (double& value : result.sorted_) value *= factor;
  result.threshold_ *= factor;
  result.scale_ *= factor;
  return result;
}

double Spread::quantile(double p) const {
  if (sorted_.empty()) return 0;
  if (p <= 1 - kTailShare) return measure::percentile_of_sorted(sorted_, 100 * p);
  const double beyond = (1 - p) / kTailShare;
  if (std::abs(shape_) < 1e-6) return threshold_ - scale_ * std::log(beyond);
  return threshold_ + scale_ / shape_ * (std::pow(beyond, -shape_) - 1);
}

double Spread::below(double x) const {
  if (sorted_.empty()) return x >= 0 ? 1 : 0;
  if (x > threshold_) {
    if (scale_ <= 0) return 1;
    const double excess = (x - threshold_) / scale_;
    if (std::abs(shape_) < 1e-6) return 1 - kTailShare * std::exp(-excess);
    return 1 - kTailShare * std::pow(std::max(0.0, 1 + shape_ * excess), -1 / shape_);
  }
  // The inverse of percentile_of_sorted().
  const auto above = std::ranges::upper_bound(sorted_, x);
  if (above == sorted_.begin()) return 0;
  if (above == sorted_.end()) return 1 - kTailShare;
  const double low = *(above - 1);
  const double place = static_cast<double>(above - sorted_.begin() - 1) + (x - low) / (*above - low);
  return place / static_cast<double>(sorted_.size() - 1);
}

std::vector<double> maxima(const StepNoise& noise, const Placement& placement, int count) {
  const int per_host = std::min(placement.per_host, placement.ranks), hosts = placement.hosts();
  const std::vector<WeightedPart> parts = host_parts(noise.host, hosts);
  const auto share_below = [&](double x) {
    double sum = 0;
    for (const WeightedPart& part : parts)
      sum += part.weight * std::pow(noise.rank.below(x - part.value), per_host);
    return std::pow(sum, hosts);
  };
  std::vector<double> values;
  for (int i = 0; i < count; ++i) {
    const double p = (i + 0.5) / count;
    const double of_ranks = noise.rank.quantile(std::pow(p, 1.0 / placement.ranks));
    if (noise.host.is_zero()) {
      values.push_back(of_ranks);
      continue;
    }
    double low = values.empty() ? noise.rank.quantile(1e-9) + parts.front().value : values.back();
    double high = of_ranks + std::max(0.0, parts.back().value);
    while (share_below(high) < p) high += std::max(1e-9, high - low);
    for (int halving = 0; halving < kHalvings; ++halving) {
      const double middle = (low + high) / 2;
      (share_below(middle) < p ? low : high) = middle;
    }
    values.push_back(high);
  }
  return values;
}

BucketCaps bucket_caps(const std::string& strategy, double bucket_mb, double wire) {
  const double mebibyte = wire * static_cast<double>(kMiB), cap = bucket_mb * mebibyte;
  if (strategy == "ddp") return {.bytes = cap, .first_bytes = std::min(cap, mebibyte), .whole_tensors = true};
  return {.bytes = cap};
}

void find_tails(std::vector<GradientBucket>& buckets, const BucketCaps& caps, double largest_bytes) {
  if (!caps.whole_tensors) return;
  for (GradientBucket& bucket : buckets) {
    const double cap = &bucket == buckets.data() ? caps.first_bytes : caps.bytes;
    bucket.tail_bytes = std::max(0.0, bucket.bytes - cap);
    if (cap < largest_bytes && largest_bytes <= bucket.bytes)
      bucket.tail_bytes = std::max(bucket.tail_bytes, largest_bytes);
  }
}

std::vector<GradientBucket> cut_again(const std::vector<GradientBucket>& buckets, double begin_s,
                                      const BucketCaps& caps) {
  double all_bytes = 0;
  for (const GradientBucket& bucket : buckets) all_bytes += bucket.bytes;
  std::vector<GradientBucket> cut;
  size_t k = 0;
  double done = 0, before_bytes = 0, before_s = begin_s;
  while (done < all_bytes * (1 - kRoundedBytes)) {
    double until = done + (cut.empty() ? caps.first_bytes : caps.bytes);
    if (until > all_bytes * (1 - kRoundedBytes) || cut.size() + 1 == kMostBuckets) until = all_bytes;
    while (k + 1 < buckets.size() && before_bytes + buckets[k].bytes < until) {
      before_bytes += buckets[k].bytes;
      before_s = std::max(before_s, buckets[k++].ready_s);
    }
    const GradientBucket& bucket = buckets[k];
    const double share = std::min(1.0, (until - before_bytes) / bucket.bytes);
    const bool in_tail = share >= (1 - bucket.tail_bytes / bucket.bytes) * (1 - kRoundedBytes);
    if (in_tail && caps.whole_tensors && bucket.tail_bytes > 0) until = before_bytes + bucket.bytes;
    cut.push_back({.kind = bucket.kind,
                   .bytes = until - done,
                   .ready_s = before_s + (in_tail ? 1 : share) * std::max(0.0, bucket.ready_s - before_s)});
    done = until;
  }
  return cut;
}

}  // namespace lockstep::predict
