#pragma once

#include <chrono>

#include <nlohmann/json.hpp>

#include "lockstep/launch/lost_rank.h"

namespace lockstep::launch {

// What ranks and coordinator of the watch say to each other: JSON objects with the key "is".
//
//   rank to coordinator                          coordinator to rank
//   hello {job, rank, host, pid}                 welcome {host, pid}
//   beat {step, label}                           beat {step, label}: of rank 0
//   failed {lost}                                lost {lost}: the cause, to every rank that is still there
//   leave {signal}: this rank was told to end    leave {signal}: the user ended the job
//   abandoned {lost}: leaves because the
//     coordinator was silent
//   bye {}                                       bye {}: understood
//                                                end {}: the watch is over, orderly

using nlohmann::json;

/// How often a rank is heard, and how long a loop of the watch may oversleep before it counts as having been
/// paused itself (a stopped process, a suspended machine): it then cannot tell that others were silent.
constexpr std::chrono::milliseconds kHeartbeatPeriod{200};
constexpr std::chrono::milliseconds kPaused{1000};

json to_message(const LostRank& lost);
/// Throws nlohmann's exception when fields are missing or of another type.
LostRank lost_rank_from(const json& message);

}  // namespace lockstep::launch
