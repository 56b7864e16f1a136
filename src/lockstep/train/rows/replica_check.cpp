#include "lockstep/train/rows/replica_check.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/train/rows/gather.h"

namespace lockstep::train {

std::string why_not_comparable(const strategies::Traits& traits, int ranks) {
  if (!traits.coupled || !traits.replicas_equal) return "its replicas go their own ways";
  if (ranks == 1) return "there is one replica";
  return "";
}

void require_equal_replicas(uint64_t state_hash, const RowPlan& row, int64_t step,
                            comm::Communicator& group) {
  const std::vector<int64_t> all = gather_equal<int64_t>({static_cast<int64_t>(state_hash)}, group);
  std::vector<int> others;
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) others.push_back(static_cast<int>(rank));
  }
  if (others.empty()) return;
  throw Error(
      fmt::format("the replicas of {} differ after step {}: {} {} other bits than rank 0", row.strategy, step,
                  others.size() == 1 ? fmt::format("rank {}", others.front())
                                     : fmt::format("ranks {}", fmt::join(others, ", ")),
                  others.size() == 1 ? "has" : "have"),
      "'lockstep verify' finds out which promise is broken; --verify-every 1 finds the first such step.");
}

}  // namespace lockstep::train
