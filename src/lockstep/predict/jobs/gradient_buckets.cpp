#include "lockstep/predict/jobs/gradient_buckets.h"

#include <algorithm>

#include "lockstep/base/units.h"

namespace lockstep::predict {
namespace {

constexpr size_t kMostBuckets = 100'000;
/// Rounding of sums of bytes, relative to them.
constexpr double kRoundedBytes = 1e-9;

}  // namespace

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
