#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/store.h"
#include "lockstep/launch/lost_rank.h"
#include "lockstep/launch/rank_environment.h"

namespace lockstep::launch {

// Ranks that no parent started meet in a store that may outlive them: torchrun's agent keeps one for all
// commands that follow each other in its ranks. So rank 0 numbers the meetings, and believes a rank only
// after an answer. The ranks write into one log, `arrival/N`, of which `arrivals` is the length and `read`
// how far rank 0 has read.
//
//   rank                                        rank 0
//    |-- arrived {rank, token} ----------------->|
//    |<----------- key welcome/TOKEN: generation-|  the number of this meeting
//    |-- here {rank, token} -------------------->|  proof that the rank lives: an entry may be a dead rank's
//    |<----------- key GENERATION/met: {} -------|  all are here
//    |                                           |
//    |-- failed {rank, token, lost} ------------>|  in place of `arrived`: the rank cannot come
//    |<----------- key GENERATION/met: {reason} -|  the job ends: a rank failed, or did not come in time
//    |-- heard {rank, token} ------------------->|  rank 0, the host perhaps, waits two seconds for these
//
// All other keys of the job begin with the number of its meeting.

/// How long a rank waits for the others, and who hears of it.
struct Patience {
  std::chrono::duration<double> limit{kDefaultJoinTimeout_s};
  /// Called after every `say_every` of waiting with a line that names who is missing, on rank 0 and, while
  /// that is missing itself, on one rank of each host. May be empty.
  std::function<void(const std::string& line)> on_waiting = {};
  std::chrono::duration<double> say_every{10};
};

/// A rank failed or stayed away, so the job ends before it began. All ranks that came get the same one; rank
/// 0 tells the user.
class MeetingFailed : public CommError {
 public:
  MeetingFailed(const std::string& what, const std::string& advice, int exit_code)
      : CommError(what, advice), exit_code_(exit_code) {}
  /// The exit code of the rank that failed, else 1.
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

/// Returns when all ranks are here: the part of `store` that belongs to this meeting. Every rank calls it
/// once for each command that it runs. Throws MeetingFailed, and TimeoutError where rank 0 does not answer.
std::shared_ptr<comm::Store> meet(std::shared_ptr<comm::Store> store, const RankEnvironment& environment,
                                  const Patience& patience);

/// In place of meet(), on a rank that cannot come: ends the job for the others. Returns the reason that rank
/// 0 gives the user; on rank 0, which waits up to two seconds for the others to hear it, its own. Throws
/// CommError.
std::string decline(comm::Store& store, const RankEnvironment& environment, const LostRank& why,
                    std::chrono::duration<double> limit);

/// Waits in pieces of `say_every` and says so after each: calls `attempt` with the time that it may take,
/// until it returns true or the limit is over (false).
bool wait_patiently(const Patience& patience, bool speaks,
                    const std::function<bool(std::chrono::duration<double>)>& attempt,
                    const std::function<std::string()>& who_is_missing);

}  // namespace lockstep::launch
