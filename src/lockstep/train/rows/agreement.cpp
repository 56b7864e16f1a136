#include "lockstep/train/rows/agreement.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/train/rows/gather.h"

namespace lockstep::train {
namespace {

/// Most seconds by which a rank may arrive after another; rank 0 decides once all have arrived.
constexpr std::chrono::duration<double> kPatience{120};
/// Most seconds that rank 0 waits until a rank has read a refusal; the rank may have died meanwhile.
constexpr std::chrono::duration<double> kReadPatience{10};

std::string key(const std::string& topic, int rank) {
  return fmt::format("{}/{}", topic, rank);
}
std::string read_key(const std::string& topic, int rank) {
  return fmt::format("{}/read/{}", topic, rank);
}

/// The store may live in rank 0's process, which must not end before the others have read the refusal.
void wait_for_readers(const std::string& topic, int world, comm::Store& store) {
  for (int other = 1; other < world; ++other) {
    try {
      store.get(read_key(topic, other), kReadPatience);
    } catch (const CommError&) {
      continue;  // A rank that is late or lost must not hide the refusal.
    }
  }
}

ConfigError not_alike(const std::string& difference) {
  return ConfigError("the ranks were not started alike: " + difference,
                     "Give every rank the same flags, and the same lockstep.");
}

}  // namespace

void agree(const std::string& topic, const std::string& own, int rank, int world, comm::Store& store,
           const AgreementCheck& check) {
  const std::string verdict_key = topic + "/verdict";
  Trouble refusal;
  if (rank == 0) {
    std::vector<std::string> by_rank{own};
    for (int other = 1; other < world; ++other) by_rank.push_back(store.get(key(topic, other), kPatience));
    refusal = check(by_rank);
    store.set(verdict_key, to_bytes(refusal));
    if (refusal) wait_for_readers(topic, world, store);
  } else {
    store.set(key(topic, rank), own);
    refusal = from_bytes<Trouble>(store.get(verdict_key, 2 * kPatience));
    if (refusal) store.set(read_key(topic, rank), "yes");
  }
  if (refusal) throw ConfigError(refusal);
}

void agree_on_plan(const Fingerprint& own, int rank, int world, comm::Store& store) {
  agree("plan", to_bytes(own), rank, world, store, [](const std::vector<std::string>& by_rank) {
    std::vector<Fingerprint> fingerprints;
    for (const std::string& bytes : by_rank) fingerprints.push_back(from_bytes<Fingerprint>(bytes));
    const std::string difference = difference_text(fingerprints);
    return difference.empty() ? Trouble() : trouble_of(not_alike(difference));
  });
}

void agree_on_replica(const RowPlan& row, const replica::Parameters& parameters, comm::Communicator& group) {
  Fingerprint own = fingerprint_of(row);
  std::ranges::move(fingerprint_of(parameters), std::back_inserter(own));
  // The same answer everywhere, so all go on or none does.
  if (!same_on_all_ranks(hash_of(own), group)) {
    throw not_alike(difference_text(gather_records(own, &group)));
  }
}

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
      fmt::format("the replicas of {} differ after step {}: {} other bits than rank 0", row.strategy, step,
                  ranks_have(others)),
      "'lockstep verify' finds out which promise is broken; --verify-every 1 finds the first such step.");
}

}  // namespace lockstep::train
