#include "lockstep/strategies/bucket_plan.h"

#include <algorithm>

#include "lockstep/base/units.h"

namespace lockstep::strategies {
namespace {

constexpr int64_t kBytesPerElement = 4;
constexpr int64_t kLastBucketBytes = kMiB;

}  // namespace

std::vector<Bucket> plan_buckets(const replica::FlatMemory& memory, int64_t cap_bytes) {
  const int64_t cap = std::max<int64_t>(1, cap_bytes / kBytesPerElement);
  const int64_t last = std::min(cap, kLastBucketBytes / kBytesPerElement);
  // Where it all fits into the small one there is nothing to gain from two.
  const int64_t last_begin = memory.count() <= last ? 0 : memory.count() - last;
  std::vector<Bucket> buckets;
  for (int64_t begin = 0; begin < last_begin; begin += cap) {
    buckets.push_back({{begin, std::min(begin + cap, last_begin)}, {}});
  }
  buckets.push_back({{last_begin, memory.count()}, {}});
  size_t first = 0;
  for (const size_t parameter : memory.order()) {
    const replica::Range range = memory.range_of(parameter);
    while (buckets[first].range.end <= range.begin && first + 1 < buckets.size()) ++first;
    for (size_t i = first; i < buckets.size() && buckets[i].range.begin < range.end; ++i) {
      buckets[i].parameters.push_back(parameter);
    }
  }
  return buckets;
}

}  // namespace lockstep::strategies
