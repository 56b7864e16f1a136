#pragma once

#include <chrono>

#include <time.h>

namespace lockstep {

/// The steady clock, the only one for durations. On Linux its zero is the same for all processes of a host.
using Clock = std::chrono::steady_clock;

/// Seconds on the steady clock.
inline double now_s() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

/// Processor time of a thread or process by its clock, in seconds: CLOCK_THREAD_CPUTIME_ID is the calling
/// thread's. 0 where there is no such clock.
inline double processor_clock_s(clockid_t clock) {
  timespec time{};
  if (::clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Default silence after which another process counts as lost (--timeout).
inline constexpr double kDefaultTimeout_s = 30;
/// Default time in which the ranks of a job find each other (--join-timeout).
inline constexpr double kDefaultJoinTimeout_s = 120;

}  // namespace lockstep
