#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/feed/queue_use.h"

namespace lockstep::feed {

/// A bounded queue of numbered batches that several producers fill in place and one consumer takes in the
/// order of their numbers, whoever made them. Who has nothing to do sleeps.
template <typename Slot>
class OrderedRing {
 public:
  /// A batch in the making, of one producer.
  struct Place {
    /// Counted from 0.
    int64_t number = 0;
    Slot* slot = nullptr;
    /// When the work on it began; a producer that waits for something else first may set it.
    double begin_s = 0;
  };

  /// `use`: name, capacity, producers, and what a batch is.
  explicit OrderedRing(QueueUse use) : use_(std::move(use)) {
    // One more for the batch that the consumer has.
    slots_.resize(static_cast<size_t>(use_.capacity) + 1);
    is_ready_.resize(slots_.size());
  }

  /// For a producer: the next batch to make, when there is room for it; nothing once the queue was closed.
  std::optional<Place> claim() {
    std::unique_lock lock(mutex_);
    const int64_t number = claimed_++;
    const auto has_room = [&] { return number < released_ + static_cast<int64_t>(slots_.size()); };
    if (!closed_ && !has_room()) {
      const double begin_s = now_s();
      room_.wait(lock, [&] { return closed_ || has_room(); });
      ++use_.full;
      use_.full_s += now_s() - begin_s;
    }
    if (closed_) return std::nullopt;
    return Place{number, &slots_[place_of(number)], now_s()};
  }

  void publish(const Place& place) {
    const std::scoped_lock lock(mutex_);
    is_ready_[place_of(place.number)] = true;
    ++published_;
    ++use_.made;
    use_.made_s += now_s() - place.begin_s;
    ready_.notify_one();
  }

  /// No further batches: the consumer gets those that are ready, then this.
  void fail(std::exception_ptr error) {
    const std::scoped_lock lock(mutex_);
    if (!error_) error_ = std::move(error);
    ready_.notify_one();
  }

  /// For the consumer: the next batch, its own until the next call. Null once the queue was closed; throws
  /// what a producer failed with.
  Slot* next() {
    std::unique_lock lock(mutex_);
    if (taken_ > released_) {
      is_ready_[place_of(released_++)] = false;
      room_.notify_all();
    }
    const size_t place = place_of(taken_);
    const int64_t ready_now = published_ - taken_;
    const bool was_ready = is_ready_[place];
    const double begin_s = now_s();
    if (!was_ready) ready_.wait(lock, [&] { return closed_ || error_ || is_ready_[place]; });
    if (closed_) return nullptr;
    if (!is_ready_[place]) std::rethrow_exception(error_);
    count_taken(was_ready, ready_now, begin_s);
    ++taken_;
    return &slots_[place];
  }

  /// Wakes all; from any thread.
  void close() {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    room_.notify_all();
    ready_.notify_all();
  }

  QueueUse use() const {
    const std::scoped_lock lock(mutex_);
    return use_;
  }

 private:
  size_t place_of(int64_t number) const { return static_cast<size_t>(number) % slots_.size(); }

  void count_taken(bool was_ready, int64_t ready_now, double begin_s) {
    const double end_s = now_s();
    if (taken_ == 0) {
      first_taken_s_ = end_s;
      return;
    }
    ++use_.batches;
    use_.elapsed_s = end_s - first_taken_s_;
    use_.ready += ready_now;
    if (was_ready) return;
    ++use_.empty;
    use_.empty_s += end_s - begin_s;
  }

  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable ready_;
  QueueUse use_;
  std::vector<Slot> slots_;
  std::vector<bool> is_ready_;
  /// Numbers of batches: given to producers, made by them, handed to the consumer, given back by it.
  int64_t claimed_ = 0;
  int64_t published_ = 0;
  int64_t taken_ = 0;
  int64_t released_ = 0;
  double first_taken_s_ = 0;
  std::exception_ptr error_;
  bool closed_ = false;
};

}  // namespace lockstep::feed
