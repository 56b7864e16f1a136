#include "lockstep/comm/nccl/nccl_watch.h"

#include <algorithm>
#include <utility>

#include <pthread.h>

#include "lockstep/comm/helper_thread.h"

namespace lockstep::comm {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(50);
constexpr Duration kForTheEnd{3};
constexpr auto kUntilLeftBehind = std::chrono::seconds(5);

}  // namespace

NcclWatch::NcclWatch(std::shared_ptr<NcclLink> link, FailureHandler failed)
    : shared_(std::make_shared<Shared>()) {
  shared_->link = std::move(link);
  shared_->failed = std::move(failed);
  thread_ = std::thread([shared = shared_] {
    set_up_helper_thread("ls-nccl");
    run(shared);
  });
}

NcclWatch::~NcclWatch() {
  stop();
}

void NcclWatch::add(const std::shared_ptr<NcclOperation>& operation) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->failure) return operation->fail(*shared_->failure);
  shared_->pending.push_back(operation);
  // A thread that looks from time to time finds it then.
  if (shared_->pending.size() == 1) shared_->changed.notify_all();
}

void NcclWatch::wake() {
  const std::lock_guard lock(shared_->mutex);
  shared_->woken = true;
  shared_->changed.notify_all();
}

void NcclWatch::watch_graphs() {
  const std::lock_guard lock(shared_->mutex);
  if (std::exchange(shared_->graphs, true)) return;
  shared_->changed.notify_all();
}

void NcclWatch::fail(const Failure& why) {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->failure) shared_->failure = why;
  shared_->woken = true;
  shared_->changed.notify_all();
}

bool NcclWatch::idle() const {
  const std::lock_guard lock(shared_->mutex);
  return std::all_of(shared_->pending.begin(), shared_->pending.end(),
                     [](const auto& operation) { return operation->reached(); });
}

void NcclWatch::run(const std::shared_ptr<Shared>& shared) {
  cudaSetDevice(shared->link->device());
  // Not for this scope alone: all that this thread ever does is no part of what others capture.
  const CaptureExempt exempt;
  Backoff backoff;
  std::unique_lock lock(shared->mutex);
  clockid_t clock{};
  pthread_getcpuclockid(pthread_self(), &clock);
  shared->clock = clock;
  while (!shared->stopping) {
    const bool watching = shared->graphs && !shared->failure;
    const auto due = [&] { return shared->stopping || shared->woken; };
    const auto busy = [&] { return due() || !shared->pending.empty(); };
    const bool urgent = std::any_of(shared->pending.begin(), shared->pending.end(),
                                    [](const auto& operation) { return operation->urgent(); });
    if (urgent && !due()) {
      lock.unlock();
      backoff.pause();
      lock.lock();
    } else if (!shared->pending.empty() || watching) {
      shared->changed.wait_for(lock, kBetweenLooks, due);
    } else {
      shared->changed.wait(lock, busy);
    }
    if (std::exchange(shared->woken, false) || !urgent) backoff = Backoff();
    if (shared->stopping) break;
    look(*shared, lock);
    if (shared->failure) fail_all(*shared, lock);
  }
  if (!shared->failure) look(*shared, lock);
  const bool in_good_order = shared->pending.empty() && !shared->failure;
  lock.unlock();
  if (in_good_order) {
    shared->link->finish(deadline_after(kForTheEnd));
  } else {
    shared->link->abort();
  }
  lock.lock();
  shared->final_cpu_s = processor_clock_s(CLOCK_THREAD_CPUTIME_ID);
  shared->clock.reset();
  shared->ended = true;
  shared->changed.notify_all();
}

void NcclWatch::look(Shared& shared, std::unique_lock<std::mutex>& lock) {
  const std::vector<std::shared_ptr<NcclOperation>> pending = shared.pending;
  lock.unlock();
  std::optional<Failure> failure;
  for (const auto& operation : pending) {
    // One stream: what is behind an operation that is not complete is not either.
    if (!operation->poll()) break;
    try {
      operation->Operation::test();
    } catch (...) {
      failure = Failure::from_current_exception();
      break;
    }
  }
  try {
    shared.link->check_health();
  } catch (...) {
    if (!failure) failure = Failure::from_current_exception();
  }
  lock.lock();
  std::erase_if(shared.pending, [](const auto& operation) { return operation->has_outcome(); });
  if (failure && !shared.failure) shared.failure = failure;
}

void NcclWatch::fail_all(Shared& shared, std::unique_lock<std::mutex>& lock) {
  const Failure failure = *shared.failure;
  const auto pending = std::exchange(shared.pending, {});
  lock.unlock();
  shared.failed(failure);
  for (const auto& operation : pending) operation->fail(failure);
  // Last, as it may take its time: kernels that wait for others end with it, here and soon on all ranks.
  shared.link->abort();
  lock.lock();
}

void NcclWatch::stop() {
  if (!thread_.joinable()) return;
  bool ended = false;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->stopping = true;
    shared_->changed.notify_all();
    ended = shared_->changed.wait_for(lock, kUntilLeftBehind, [this] { return shared_->ended; });
  }
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

double NcclWatch::cpu_s() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->clock ? processor_clock_s(*shared_->clock) : shared_->final_cpu_s;
}

}  // namespace lockstep::comm
