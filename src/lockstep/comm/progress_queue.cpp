#include "lockstep/comm/progress_queue.h"

#include <utility>

namespace lockstep::comm {

ProgressQueue::ProgressQueue(std::string name, FailureHandler failed)
    : name_(std::move(name)), shared_(std::make_shared<Shared>()) {
  // Set before the thread exists, and never again, so it is read without the lock.
  shared_->failed = std::move(failed);
}

ProgressQueue::~ProgressQueue() {
  stop();
}

void ProgressQueue::push(std::shared_ptr<Operation> operation, Task task) {
  std::lock_guard lock(shared_->mutex);
  shared_->entries.push_back({std::move(operation), std::move(task)});
  if (!thread_.joinable()) thread_ = HelperThread(name_, [shared = shared_] { run(*shared); });
  // A busy thread checks the queue again by itself.
  if (!shared_->busy) shared_->changed.notify_all();
}

bool ProgressQueue::run_here(const Task& task) {
  {
    std::lock_guard lock(shared_->mutex);
    if (shared_->busy || !shared_->entries.empty() || shared_->stopping) return false;
    shared_->busy = true;
  }
  try {
    task();
  } catch (...) {
    shared_->failed(Failure::from_current_exception());
  }
  end(*shared_);
  return true;
}

void ProgressQueue::run(Shared& shared) {
  std::unique_lock lock(shared.mutex);
  while (true) {
    shared.changed.wait(lock, [&] { return shared.stopping || (!shared.busy && !shared.entries.empty()); });
    if (shared.stopping) return;
    Entry entry = std::move(shared.entries.front());
    shared.entries.pop_front();
    shared.busy = true;
    shared.running = entry.operation;
    lock.unlock();
    try {
      entry.task();
      // Idle before completion is signaled, so that a waiter may destroy the communicator at once.
      end(shared);
      entry.operation->complete();
    } catch (...) {
      const Failure failure = Failure::from_current_exception();
      shared.failed(failure);
      entry.operation->fail(failure);
      end(shared);
    }
    // The task may hold the last reference to buffers or operations; they are not freed under the lock.
    entry = {};
    lock.lock();
  }
}

void ProgressQueue::end(Shared& shared) {
  std::lock_guard lock(shared.mutex);
  shared.busy = false;
  shared.running.reset();
  // For a thread that waits for the end of a task that another one carried out.
  if (!shared.entries.empty()) shared.changed.notify_all();
}

void ProgressQueue::fail_all(const Failure& failure) {
  std::deque<Entry> entries;
  std::shared_ptr<Operation> running;
  {
    std::lock_guard lock(shared_->mutex);
    entries.swap(shared_->entries);
    running = shared_->running;
  }
  // Outside the lock: failing an operation calls its callback.
  if (running) running->fail(failure);
  for (Entry& entry : entries) entry.operation->fail(failure);
}

bool ProgressQueue::idle() const {
  std::lock_guard lock(shared_->mutex);
  return !shared_->busy && shared_->entries.empty();
}

void ProgressQueue::stop() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    shared_->changed.notify_all();
  }
  thread_.join_or_leave(Duration(1));
}

double ProgressQueue::cpu_s() const {
  std::lock_guard lock(shared_->mutex);
  return thread_.cpu_s();
}

}  // namespace lockstep::comm
