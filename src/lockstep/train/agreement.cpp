#include "lockstep/train/agreement.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

/// How much later than another a rank may come to it; rank 0 waits for all before it tells.
constexpr std::chrono::duration<double> kPatience{120};
constexpr const char* kVerdictKey = "plan/verdict";

[[noreturn]] void refuse(const std::string& difference) {
  throw ConfigError("the ranks were not started alike: " + difference,
                    "Give every rank the same flags, and the same lockstep.");
}

template <typename T>
std::vector<T> gather(const std::vector<T>& own, comm::Communicator& group) {
  std::vector<T> mine(own);
  std::vector<T> all(own.size() * static_cast<size_t>(group.size()));
  group.all_gather(comm::host_buffer(mine.data(), mine.size()), comm::host_buffer(all.data(), all.size()))
      ->wait();
  return all;
}

/// The facts of all ranks, on all ranks. Collective.
std::vector<Facts> gather(const Facts& own, comm::Communicator& group) {
  const std::string text = to_text(own);
  const std::vector<int64_t> sizes = gather<int64_t>({static_cast<int64_t>(text.size())}, group);
  const auto most = static_cast<size_t>(std::ranges::max(sizes));
  std::vector<uint8_t> padded(text.begin(), text.end());
  padded.resize(most);
  const std::vector<uint8_t> all = gather(padded, group);
  std::vector<Facts> by_rank;
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * most);
    by_rank.push_back(facts_from(std::string(begin, begin + sizes[rank])));
  }
  return by_rank;
}

}  // namespace

void agree_on_plan(const Facts& own, int rank, int world, comm::Store& store) {
  std::string difference;
  if (rank == 0) {
    std::vector<Facts> by_rank{own};
    for (int other = 1; other < world; ++other) {
      by_rank.push_back(facts_from(store.get(fmt::format("plan/{}", other), kPatience)));
    }
    difference = difference_text(by_rank);
    store.set(kVerdictKey, difference);
  } else {
    store.set(fmt::format("plan/{}", rank), to_text(own));
    difference = store.get(kVerdictKey, 2 * kPatience);
  }
  if (!difference.empty()) refuse(difference);
}

void agree_on_replica(const RowPlan& row, const replica::Parameters& parameters, comm::Communicator& group) {
  Facts own = facts_of(row);
  std::ranges::move(facts_of(parameters), std::back_inserter(own));
  const std::vector<int64_t> hashes = gather<int64_t>({static_cast<int64_t>(hash_of(own))}, group);
  const bool same = std::ranges::all_of(hashes, [&](int64_t hash) { return hash == hashes.front(); });
  // Every rank has the same hashes before it, so all go on or none does.
  if (!same) refuse(difference_text(gather(own, group)));
}

}  // namespace lockstep::train
