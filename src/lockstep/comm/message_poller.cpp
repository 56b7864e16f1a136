#include "lockstep/comm/message_poller.h"

#include <iterator>

#include <pthread.h>

#include "lockstep/comm/helper_thread.h"

namespace lockstep::comm {

MessagePoller::~MessagePoller() {
  stop();
}

void MessagePoller::add(std::shared_ptr<PolledOperation> operation) {
  std::lock_guard lock(mutex_);
  added_.push_back(std::move(operation));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void MessagePoller::run() {
  set_up_helper_thread("ls-message");
  std::vector<std::shared_ptr<PolledOperation>> pending;
  Backoff backoff;
  std::unique_lock lock(mutex_);
  pthread_getcpuclockid(pthread_self(), &clock_);
  has_clock_ = true;
  while (true) {
    if (pending.empty()) changed_.wait(lock, [this] { return stopping_ || !added_.empty(); });
    if (stopping_) break;
    bool news = !added_.empty();
    pending.insert(pending.end(), std::make_move_iterator(added_.begin()),
                   std::make_move_iterator(added_.end()));
    added_.clear();
    lock.unlock();
    news = std::erase_if(pending, [](const auto& operation) { return operation->poll(); }) > 0 || news;
    if (news) {
      backoff = Backoff();
    } else {
      backoff.pause();
    }
    lock.lock();
  }
  final_cpu_s_ = processor_clock_s(clock_);
  has_clock_ = false;
}

void MessagePoller::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

double MessagePoller::cpu_s() const {
  std::lock_guard lock(mutex_);
  return has_clock_ ? processor_clock_s(clock_) : final_cpu_s_;
}

}  // namespace lockstep::comm
