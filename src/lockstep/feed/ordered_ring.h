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

/// A bounded queue of numbered batches. Several producers fill them in place; one consumer takes them in
/// order of number, whichever producer made them. Threads without work sleep.
///
///   numbers:  given back | with the consumer | ready or being made | room
///                     released_             taken_                claimed_
///
/// Batch n lives in slot n % (capacity + 1); the extra slot is the one that the consumer holds.
template <typename Slot>
class OrderedRing {
 public:
  /// A batch that a producer is making.
  struct Place {
    /// Counted from 0.
    int64_t number = 0;
    Slot* slot = nullptr;
    /// Begin of the work on it; a producer that waits for something else first may set it.
    double begin_s = 0;
  };

  /// `use`: name, capacity, producers and the size of a batch.
  explicit OrderedRing(QueueUse use) : use_(std::move(use)) {
    slots_.resize(static_cast<size_t>(use_.capacity) + 1);
    is_ready_.resize(slots_.size());
  }

  /// For a producer: the next batch to make, once there is room for it; empty after close().
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
    return Place{number, &slots_[slot_of(number)], now_s()};
  }

  void publish(const Place& place) {
    const std::scoped_lock lock(mutex_);
    is_ready_[slot_of(place.number)] = true;
    ++published_;
    ++use_.made;
    use_.made_s += now_s() - place.begin_s;
    ready_.notify_one();
  }

  /// Ends production: the consumer gets the batches that are ready, then this error.
  void fail(std::exception_ptr error) {
    const std::scoped_lock lock(mutex_);
    if (!error_) error_ = std::move(error);
    ready_.notify_one();
  }

  /// For the consumer: the next batch, valid until the next call. Null after close(); throws the error that a
  /// producer failed with.
  Slot* next() {
    std::unique_lock lock(mutex_);
    if (taken_ > released_) {
      is_ready_[slot_of(released_++)] = false;
      room_.notify_all();
    }
    const size_t place = slot_of(taken_);
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

  /// Wakes all threads. From any thread.
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
  size_t slot_of(int64_t number) const { return static_cast<size_t>(number) % slots_.size(); }

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
  /// Batches given to producers, made by them, handed to the consumer, and given back by it.
  int64_t claimed_ = 0;
  int64_t published_ = 0;
  int64_t taken_ = 0;
  int64_t released_ = 0;
  double first_taken_s_ = 0;
  std::exception_ptr error_;
  bool closed_ = false;
};

}  // namespace lockstep::feed
