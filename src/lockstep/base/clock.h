#pragma once

#include <chrono>

namespace lockstep {

/// The steady clock, the only one for durations. On Linux its zero is the same for all processes of a
/// host.
using Clock = std::chrono::steady_clock;

/// Seconds on the steady clock.
inline double now_s() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

/// Default silence after which another process counts as lost (--timeout).
inline constexpr double kDefaultTimeout_s = 30;
/// Default time in which the ranks of a job find each other (--join-timeout).
inline constexpr double kDefaultJoinTimeout_s = 120;

}  // namespace lockstep
