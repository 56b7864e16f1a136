#include "lockstep/comm/progress_queue.h"

#include <utility>

#include <pthread.h>

#include "lockstep/comm/helper_thread.h"

namespace lockstep::comm {
ProgressQueue::ProgressQueue(std::string name, FailureHandler failed)
    : name_(std::move(name)), shared_(std::make_shared<Shared>()) {
  shared_->failed = std::move(failed);
}

ProgressQueue::~ProgressQueue() {
  stop();
}

void ProgressQueue::push(std::shared_ptr<Operation> operation, Task task) {
  std::lock_guard lock(shared_->mutex);
  shared_->entries.push_back({std::move(operation), std::move(task)});
  if (!thread_.joinable()) {
    thread_ = std::thread([shared = shared_, name = name_] {
      set_up_helper_thread(name);
      run(shared);
    });
  }
  if (!shared_->running) shared_->changed.notify_all();
}

void ProgressQueue::run(const std::shared_ptr<Shared>& shared) {
  pthread_getcpuclockid(pthread_self(), &shared->clock);
  shared->has_clock = true;
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->changed.wait(lock, [&] { return shared->stopping || !shared->entries.empty(); });
    if (shared->stopping) break;
    Entry entry = std::move(shared->entries.front());
    shared->entries.pop_front();
    shared->running = entry.operation;
    lock.unlock();
    try {
      entry.task();
      // Idle before the waiter hears of it, so that whoever waited may destroy the communicator.
      lock.lock();
      shared->running.reset();
      lock.unlock();
      entry.operation->complete();
    } catch (...) {
      const Failure failure = Failure::from_current_exception();
      shared->failed(failure);
      entry.operation->fail(failure);
    }
    entry = {};
    lock.lock();
    shared->running.reset();
  }
  shared->final_cpu_s = processor_clock_s(CLOCK_THREAD_CPUTIME_ID);
  shared->has_clock = false;
  shared->ended = true;
  shared->changed.notify_all();
}

void ProgressQueue::fail_all(const Failure& failure) {
  std::deque<Entry> entries;
  std::shared_ptr<Operation> running;
  {
    std::lock_guard lock(shared_->mutex);
    entries.swap(shared_->entries);
    running = shared_->running;
  }
  if (running) running->fail(failure);
  for (Entry& entry : entries) entry.operation->fail(failure);
}

bool ProgressQueue::idle() const {
  std::lock_guard lock(shared_->mutex);
  return !shared_->running && shared_->entries.empty();
}

void ProgressQueue::stop() {
  if (!thread_.joinable()) return;
  bool ended = false;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->stopping = true;
    shared_->changed.notify_all();
    ended = shared_->changed.wait_until(lock, deadline_after(Duration(1)), [this] { return shared_->ended; });
  }
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

double ProgressQueue::cpu_s() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->has_clock ? processor_clock_s(shared_->clock) : shared_->final_cpu_s;
}

}  // namespace lockstep::comm
