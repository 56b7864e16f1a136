#include "lockstep/strategies/announcements.h"

#include <utility>

#include "lockstep/strategies/stoppable_wait.h"

namespace lockstep::strategies {

void Announcements::begin_step() {
  const std::lock_guard lock(mutex_);
  announced_count_ = 0;
  started_.clear();
  taken_ = 0;
}

void Announcements::announce(size_t tensor) {
  const std::lock_guard lock(mutex_);
  announced_.push_back(tensor);
  ++announced_count_;
  // If the background thread only waits for its next cycle, waking it would take the core from the backward
  // pass.
  if (waits_for_news_ || announced_count_ == tensors_) to_background_.notify_all();
}

size_t Announcements::missing() const {
  const std::lock_guard lock(mutex_);
  return tensors_ - announced_count_;
}

comm::WorkPtr Announcements::next_started() {
  std::unique_lock lock(mutex_);
  to_training_.wait(lock, [this] { return failure_ || taken_ < started_.size(); });
  if (failure_) std::rethrow_exception(failure_);
  return std::move(started_[taken_++]);
}

void Announcements::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  to_background_.notify_all();
}

bool Announcements::wait_for_step() {
  std::unique_lock lock(mutex_);
  waits_for_news_ = true;
  to_background_.wait(lock, [this] { return stopping_ || !announced_.empty(); });
  waits_for_news_ = false;
  return !stopping_;
}

std::optional<std::vector<size_t>> Announcements::take(std::chrono::steady_clock::time_point not_before) {
  std::unique_lock lock(mutex_);
  const auto everything = [this] { return announced_count_ == tensors_; };
  waits_for_news_ = true;
  to_background_.wait(lock, [&] { return stopping_ || !announced_.empty() || everything(); });
  waits_for_news_ = false;
  to_background_.wait_until(lock, not_before, [&] { return stopping_ || everything(); });
  if (stopping_) return std::nullopt;
  return std::exchange(announced_, {});
}

void Announcements::started(comm::WorkPtr work) {
  const std::lock_guard lock(mutex_);
  started_.push_back(std::move(work));
  to_training_.notify_all();
}

void Announcements::failed(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
  to_training_.notify_all();
}

bool Announcements::wait(comm::Work& work) {
  return wait_unless_stopping(work, mutex_, to_background_, stopping_);
}

}  // namespace lockstep::strategies
