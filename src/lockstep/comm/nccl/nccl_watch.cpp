#include "lockstep/comm/nccl/nccl_watch.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

/// Without a waiter nothing depends on the outcome soon; often enough to notice failures and time-outs.
constexpr auto kBetweenLooks = std::chrono::milliseconds(50);
/// For ending NCCL's communicator, in good order or not.
constexpr Duration kUntilLeftBehind{5};

}  // namespace

void NcclOperation::begin(Deadline deadline) {
  deadline_ = deadline;
}

void NcclOperation::issued(std::shared_ptr<CudaEvent> end, bool captured) {
  end_ = std::move(end);
  captured_ = captured;
  issued_ = true;
}

bool NcclOperation::poll() noexcept {
  if (has_outcome()) return true;
  try {
    if (reached()) {
      complete();
    } else if (Clock::now() > deadline_) {
      throw TimeoutError(info().describe() + " over nccl did not complete in time",
                         "check that every rank is alive and takes the same steps");
    }
  } catch (...) {
    fail(Failure::from_current_exception());
  }
  return has_outcome();
}

NcclWatch::NcclWatch(std::shared_ptr<NcclLink> link, FailureHandler failed)
    : shared_(std::make_shared<Shared>()) {
  shared_->link = std::move(link);
  shared_->failed = std::move(failed);
  thread_ = HelperThread("ls-nccl", [shared = shared_] { run(*shared); });
}

NcclWatch::~NcclWatch() {
  stop();
}

void NcclWatch::add(const std::shared_ptr<NcclOperation>& operation) {
  const std::lock_guard lock(shared_->mutex);
  // fail_all() may have run already.
  if (shared_->failure) return operation->fail(*shared_->failure);
  shared_->pending.push_back(operation);
  // A thread with older operations checks regularly anyway.
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
  return std::all_of(shared_->pending.begin(), shared_->pending.end(), [](const auto& operation) {
    return operation->left_to_graph() || operation->reached();
  });
}

void NcclWatch::run(Shared& shared) {
  cudaSetDevice(shared.link->device());
  // For the thread's whole life: nothing that it does is part of what others capture.
  const CaptureExempt exempt;
  Backoff backoff;
  std::unique_lock lock(shared.mutex);
  while (!shared.stopping) {
    const bool watching = shared.graphs && !shared.failure;
    const auto due = [&] { return shared.stopping || shared.woken; };
    const auto busy = [&] { return due() || !shared.pending.empty(); };
    const bool urgent = std::any_of(shared.pending.begin(), shared.pending.end(),
                                    [](const auto& operation) { return operation->urgent(); });
    if (urgent && !due()) {
      lock.unlock();
      backoff.pause();
      lock.lock();
    } else if (!shared.pending.empty() || watching) {
      shared.changed.wait_for(lock, kBetweenLooks, due);
    } else {
      shared.changed.wait(lock, busy);
    }
    if (std::exchange(shared.woken, false) || !urgent) backoff = Backoff();
    if (shared.stopping) break;
    check_operations(shared, lock);
    if (shared.failure) fail_all(shared, lock);
  }
  // A last check: operations that are complete by now do not count as in flight.
  if (!shared.failure) check_operations(shared, lock);
  const bool in_good_order = shared.pending.empty() && !shared.failure;
  lock.unlock();
  if (in_good_order) {
    shared.link->finish();
  } else {
    shared.link->abort();
  }
}

void NcclWatch::check_operations(Shared& shared, std::unique_lock<std::mutex>& lock) {
  // A copy, so that the GPU and NCCL are asked, and callbacks run, without the lock.
  const std::vector<std::shared_ptr<NcclOperation>> pending = shared.pending;
  lock.unlock();
  std::optional<Failure> failure;
  for (const auto& operation : pending) {
    if (operation->left_to_graph()) continue;
    // One stream: nothing behind an incomplete operation is complete.
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
  std::erase_if(shared.pending,
                [](const auto& operation) { return operation->left_to_graph() || operation->has_outcome(); });
  if (failure && !shared.failure) shared.failure = failure;
}

void NcclWatch::fail_all(Shared& shared, std::unique_lock<std::mutex>& lock) {
  const Failure failure = *shared.failure;
  const auto pending = std::exchange(shared.pending, {});
  lock.unlock();
  // The communicator before the operations: a thread that sees one fail must not be able to issue another.
  shared.failed(failure);
  for (const auto& operation : pending) operation->fail(failure);
  // Last, as it may take long: it ends kernels that wait for other ranks, here and soon on all ranks.
  shared.link->abort();
  lock.lock();
}

void NcclWatch::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    shared_->changed.notify_all();
  }
  thread_.join_or_leave(kUntilLeftBehind);
}

}  // namespace lockstep::comm
