#include "lockstep/comm/helper_thread.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "lockstep/base/clock.h"
#include "lockstep/comm/operation.h"

namespace lockstep::comm {
namespace {

sigset_t only_sigpipe() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

}  // namespace

void set_up_helper_thread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.c_str());
  const sigset_t pipe = only_sigpipe();
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  // Nanoseconds. The default of 50 us would dominate sleeps of 20 us.
  prctl(PR_SET_TIMERSLACK, 1000UL);
}

/// Shared with the thread, which may be left behind. The thread itself opens and closes its clock, which
/// cannot be had from outside once it has ended.
struct HelperThread::Life {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<clockid_t> clock;
  double final_cpu_s = 0;
  bool ended = false;

  void begin() {
    clockid_t own{};
    pthread_getcpuclockid(pthread_self(), &own);
    const std::lock_guard lock(mutex);
    clock = own;
  }
  void end() {
    const std::lock_guard lock(mutex);
    final_cpu_s = processor_clock_s(CLOCK_THREAD_CPUTIME_ID);
    clock.reset();
    ended = true;
    changed.notify_all();
  }
};

HelperThread::HelperThread(const std::string& name, std::function<void()> body)
    : life_(std::make_shared<Life>()), thread_([life = life_, name, body = std::move(body)] {
        set_up_helper_thread(name);
        life->begin();
        body();
        life->end();
      }) {}

void HelperThread::join_or_leave(Duration limit) {
  bool ended = false;
  {
    std::unique_lock lock(life_->mutex);
    ended = life_->changed.wait_until(lock, deadline_after(limit), [this] { return life_->ended; });
  }
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

double HelperThread::cpu_s() const {
  // A thread that was never started.
  if (!life_) return 0;
  const std::lock_guard lock(life_->mutex);
  return life_->clock ? processor_clock_s(*life_->clock) : life_->final_cpu_s;
}

WaiterThreads::~WaiterThreads() {
  stop();
}

void WaiterThreads::run(std::function<void()> call) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  calls_.push_back(std::move(call));
  // idle_ counts a woken thread until it has the lock, so calls that wait for such threads are counted too.
  if (calls_.size() > idle_) threads_.emplace_back("ls-waiter", [this] { work(); });
  changed_.notify_one();
}

void WaiterThreads::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return stopping_ || !calls_.empty(); });
    --idle_;
    // After stop() the calls that wait are still carried out.
    if (calls_.empty()) return;
    const std::function<void()> call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    call();
    lock.lock();
  }
}

void WaiterThreads::stop() {
  std::vector<HelperThread> threads;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
    changed_.notify_all();
  }
  // Without the lock, which the threads need to end.
  for (HelperThread& thread : threads) thread.join();
}

double WaiterThreads::cpu_s() const {
  std::lock_guard lock(mutex_);
  double sum_s = 0;
  for (const HelperThread& thread : threads_) sum_s += thread.cpu_s();
  return sum_s;
}

SigpipeBlock::SigpipeBlock() {
  const sigset_t pipe = only_sigpipe();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  was_blocked_ = sigismember(&before, SIGPIPE) == 1;
}

SigpipeBlock::~SigpipeBlock() {
  if (was_blocked_) return;
  const sigset_t pipe = only_sigpipe();
  const timespec now{};
  // Removes a signal that arrived meanwhile; unblocking would deliver it and end the process.
  sigtimedwait(&pipe, nullptr, &now);
  pthread_sigmask(SIG_UNBLOCK, &pipe, nullptr);
}

Backoff::Backoff() : start_s_(now_s()) {}

void Backoff::pause() {
  // Sleeps a quarter of the time waited so far, so that polling adds at most a quarter to a short wait, and
  // costs little processor time in a long one.
  const double spin_s = 20e-6;
  const double waited_s = now_s() - start_s_;
  if (waited_s < spin_s) return;
  const double longest_s = waited_s < 1 ? 100e-6 : 500e-6;
  // A thread of the program sleeps as exactly as a helper while it waits here, and later.
  thread_local const int exact = prctl(PR_SET_TIMERSLACK, 1000UL);
  static_cast<void>(exact);
  std::this_thread::sleep_for(std::chrono::duration<double>(std::clamp(waited_s / 4, spin_s, longest_s)));
}

}  // namespace lockstep::comm
