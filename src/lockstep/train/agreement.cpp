#include "lockstep/train/agreement.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/train/gather.h"

namespace lockstep::train {
namespace {

/// How much later than another a rank may come to it; rank 0 waits for all before it tells.
constexpr std::chrono::duration<double> kPatience{120};
/// How long rank 0 waits for a rank to have heard that it must end; it could have died of something else.
constexpr std::chrono::duration<double> kHearingPatience{10};
constexpr const char* kVerdictKey = "plan/verdict";

std::string heard_key(int rank) {
  return fmt::format("plan/heard/{}", rank);
}

/// The store may live in rank 0's process: it must not end before the others have read why.
void wait_for_hearers(int world, comm::Store& store) {
  for (int other = 1; other < world; ++other) {
    try {
      store.get(heard_key(other), kHearingPatience);
    } catch (const CommError&) {
      continue;  // A rank that is late or lost must not hide the difference.
    }
  }
}

[[noreturn]] void refuse(const std::string& difference) {
  throw ConfigError("the ranks were not started alike: " + difference,
                    "Give every rank the same flags, and the same lockstep.");
}

/// The facts of all ranks, on all ranks. Collective.
std::vector<Facts> gather(const Facts& own, comm::Communicator& group) {
  const std::string text = to_text(own);
  std::vector<Facts> by_rank;
  for (const auto& bytes : gather_by_rank(std::vector<uint8_t>(text.begin(), text.end()), group)) {
    by_rank.push_back(facts_from(std::string(bytes.begin(), bytes.end())));
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
    if (!difference.empty()) wait_for_hearers(world, store);
  } else {
    store.set(fmt::format("plan/{}", rank), to_text(own));
    difference = store.get(kVerdictKey, 2 * kPatience);
    if (!difference.empty()) store.set(heard_key(rank), "yes");
  }
  if (!difference.empty()) refuse(difference);
}

void agree_on_replica(const RowPlan& row, const replica::Parameters& parameters, comm::Communicator& group) {
  Facts own = facts_of(row);
  std::ranges::move(facts_of(parameters), std::back_inserter(own));
  // The same answer everywhere, so all go on or none does.
  if (!same_on_all_ranks(hash_of(own), group)) refuse(difference_text(gather(own, group)));
}

}  // namespace lockstep::train
