#include "lockstep/strategies/bucket_plan.h"

#include <algorithm>

#include "lockstep/base/units.h"

namespace lockstep::strategies {
namespace {

constexpr int64_t kBytesPerElement = 4;
constexpr int64_t kLastBucketBytes = kMiB;

}  // namespace

std::vector<Bucket> plan_buckets(const replica::FlatMemory& memory, int64_t cap_bytes,
                                 const BucketRules& rules) {
  const replica::Range whole = rules.within.value_or(replica::Range{0, memory.padded_count()});
  std::vector<Bucket> buckets;
  if (whole.count() == 0) return buckets;
  const auto elements = [&](int64_t bytes) {
    return std::max<int64_t>(1, bytes / kBytesPerElement / rules.multiple_of) * rules.multiple_of;
  };
  const int64_t cap = elements(cap_bytes);
  const int64_t last = std::min(cap, elements(kLastBucketBytes));
  // If everything fits in the last, small bucket, a second one would be useless.
  const int64_t last_begin = whole.count() <= last ? whole.begin : whole.end - last;
  for (int64_t begin = whole.begin; begin < last_begin; begin += cap) {
    buckets.push_back({{begin, std::min(begin + cap, last_begin)}, {}});
  }
  buckets.push_back({{last_begin, whole.end}, {}});
  size_t first = 0;
  for (const size_t parameter : memory.order()) {
    const replica::Range range = memory.range_of(parameter);
    if (range.end <= whole.begin) continue;
    while (buckets[first].range.end <= range.begin && first + 1 < buckets.size()) ++first;
    for (size_t i = first; i < buckets.size() && buckets[i].range.begin < range.end; ++i) {
      if (range.begin < buckets[i].range.end) buckets[i].parameters.push_back(parameter);
    }
  }
  return buckets;
}

}  // namespace lockstep::strategies
