#include "lockstep/comm/waiter_threads.h"

#include <utility>

namespace lockstep::comm {

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

}  // namespace lockstep::comm
