#include "lockstep/plots/bucket_lanes.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace lockstep::plots {

std::vector<size_t> bucket_lanes(const std::vector<results::BucketTimes>& buckets, size_t most) {
  std::vector<size_t> order(buckets.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return buckets[i].ready_s; });
  std::vector<size_t> lanes(buckets.size(), 0);
  std::vector<double> free_at;
  for (size_t i : order) {
    auto lane = std::ranges::find_if(free_at, [&](double end_s) { return end_s <= buckets[i].ready_s; });
    if (lane == free_at.end()) {
      if (free_at.size() < most) {
        lane = free_at.insert(free_at.end(), 0);
      } else {
        lane = std::ranges::min_element(free_at);
      }
    }
    *lane = std::max(*lane, buckets[i].ended_s);
    lanes[i] = lane - free_at.begin();
  }
  return lanes;
}

std::vector<size_t> chosen_ranks(const results::Breakdown& breakdown, size_t most) {
  const size_t all = breakdown.ranks.size();
  std::set<size_t> chosen;
  if (all <= most) {
    for (size_t i = 0; i < all; ++i) chosen.insert(i);
    return {chosen.begin(), chosen.end()};
  }
  const bool extra =
      breakdown.straggler && *breakdown.straggler >= 0 && static_cast<size_t>(*breakdown.straggler) < all;
  if (extra) chosen.insert(*breakdown.straggler);
  const size_t spread = std::max<size_t>(2, most - (extra ? 1 : 0));
  for (size_t i = 0; i < spread && chosen.size() < most; ++i) chosen.insert(i * (all - 1) / (spread - 1));
  return {chosen.begin(), chosen.end()};
}

}  // namespace lockstep::plots
