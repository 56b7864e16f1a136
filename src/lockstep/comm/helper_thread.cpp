#include "lockstep/comm/helper_thread.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "lockstep/base/clock.h"

namespace lockstep::comm {
namespace {

sigset_t only_sigpipe() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

bool sigpipe_pending() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGPIPE) == 1;
}

}  // namespace

void set_up_helper_thread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.c_str());
  const sigset_t pipe = only_sigpipe();
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  prctl(PR_SET_TIMERSLACK, 1000UL);
}

double processor_clock_s(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return 0;
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

SigpipeBlock::SigpipeBlock() {
  const sigset_t pipe = only_sigpipe();
  sigset_t before;
  was_pending_ = sigpipe_pending();
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  was_blocked_ = sigismember(&before, SIGPIPE) == 1;
}

SigpipeBlock::~SigpipeBlock() {
  if (was_blocked_) return;
  const sigset_t pipe = only_sigpipe();
  const timespec now{};
  if (!was_pending_ && sigpipe_pending()) sigtimedwait(&pipe, nullptr, &now);
  pthread_sigmask(SIG_UNBLOCK, &pipe, nullptr);
}

Backoff::Backoff() : start_s_(now_s()) {}

void Backoff::pause() {
  const double spin_s = 20e-6;
  const double waited_s = now_s() - start_s_;
  if (waited_s < spin_s) return;
  const double longest_s = waited_s < 1 ? 100e-6 : 500e-6;
  std::this_thread::sleep_for(std::chrono::duration<double>(std::clamp(waited_s / 4, spin_s, longest_s)));
}

}  // namespace lockstep::comm
