#include "lockstep/comm/waiter_threads.h"

#include <utility>

#include <pthread.h>

#include "lockstep/comm/helper_thread.h"

namespace lockstep::comm {

WaiterThreads::~WaiterThreads() {
  stop();
}

void WaiterThreads::run(std::function<void()> call) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  calls_.push_back(std::move(call));
  if (calls_.size() > idle_) threads_.emplace_back([this] { work(); });
  changed_.notify_one();
}

void WaiterThreads::work() {
  set_up_helper_thread("ls-waiter");
  std::unique_lock lock(mutex_);
  clockid_t clock{};
  pthread_getcpuclockid(pthread_self(), &clock);
  clocks_.push_back(clock);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return stopping_ || !calls_.empty(); });
    --idle_;
    if (calls_.empty()) return;
    const std::function<void()> call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    call();
    lock.lock();
  }
}

void WaiterThreads::stop() {
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
    clocks_.clear();
    changed_.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
}

double WaiterThreads::cpu_s() const {
  std::lock_guard lock(mutex_);
  double sum_s = 0;
  for (const clockid_t clock : clocks_) sum_s += processor_clock_s(clock);
  return sum_s;
}

}  // namespace lockstep::comm
