#pragma once

#include <ctime>
#include <string>

namespace lockstep::comm {

/// Makes the calling thread one of lockstep's helpers: named (at most 15 characters), deaf to SIGPIPE, short
/// sleeps exact to a microsecond.
void set_up_helper_thread(const std::string& name);

/// Processor seconds on a thread's or process's clock; 0 when the clock is no more.
double processor_clock_s(clockid_t clock);

/// While it lives, a write to a closed socket gives this thread an error instead of ending the process.
class SigpipeBlock {
 public:
  SigpipeBlock();
  ~SigpipeBlock();
  SigpipeBlock(const SigpipeBlock&) = delete;
  SigpipeBlock& operator=(const SigpipeBlock&) = delete;

 private:
  bool was_blocked_ = false;
  bool was_pending_ = false;
};

/// Waits for something that only tells when asked: spins for 20 us, then sleeps 20 us to 0.1 ms, and up to
/// 0.5 ms after a second.
class Backoff {
 public:
  Backoff();
  void pause();

 private:
  double start_s_;
};

}  // namespace lockstep::comm
