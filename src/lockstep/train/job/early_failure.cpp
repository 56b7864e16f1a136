#include "lockstep/train/job/early_failure.h"

#include <chrono>

#include "lockstep/launch/lost_rank.h"
#include "lockstep/launch/rank_session.h"
#include "lockstep/launch/tcp_store.h"

namespace lockstep::train {
namespace {

/// Rank 0 may be slower to the meeting than this rank was to its error.
constexpr std::chrono::duration<double> kUntilHeard{5};

}  // namespace

bool told_by_another(const launch::RankEnvironment& environment, const std::exception& error) noexcept {
  try {
    if (environment.supervised) return !launch::RankSession(environment, {}).fail(error).prints;
    if (environment.world == 1) return false;
    const launch::LostRank own = launch::failure_of(environment.rank, error);
    // Ranks that all have the same flags fail alike, and rank 0's word is enough.
    return launch::decline_store(environment, own, kUntilHeard) == error.what() && environment.rank != 0;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace lockstep::train
