#pragma once

#include <algorithm>
#include <mutex>

#include "lockstep/base/clock.h"
#include "lockstep/feed/queue_use.h"

namespace lockstep::inputs {

/// Counts how the queue of a loader is used that does not count itself, from its two ends: what its workers
/// are called for, and how long taking a batch takes. From any thread.
class LoaderUse {
 public:
  explicit LoaderUse(feed::QueueUse use) : use_(std::move(use)) {}

  /// A worker read a batch, after it had waited to be called.
  void read(double called_after_s, double took_s) {
    const std::scoped_lock lock(mutex_);
    ++read_;
    ++use_.made;
    use_.made_s += took_s;
    if (called_after_s < kShortest) return;
    ++use_.full;
    use_.full_s += called_after_s;
  }

  /// How many batches wait.
  int64_t ready() const {
    const std::scoped_lock lock(mutex_);
    return std::max<int64_t>(0, read_ - taken_);
  }

  /// One was taken; `ready_before` that waited when it was wanted.
  void take(int64_t ready_before, double begin_s, double end_s) {
    const std::scoped_lock lock(mutex_);
    if (taken_++ == 0) {
      first_taken_s_ = end_s;
      return;
    }
    ++use_.batches;
    use_.elapsed_s = end_s - first_taken_s_;
    use_.ready += ready_before;
    if (end_s - begin_s < kShortest) return;
    ++use_.empty;
    use_.empty_s += end_s - begin_s;
  }

  feed::QueueUse use() const {
    const std::scoped_lock lock(mutex_);
    return use_;
  }

 private:
  /// Shorter than this is what handing over takes, and no wait.
  static constexpr double kShortest = 50e-6;

  mutable std::mutex mutex_;
  feed::QueueUse use_;
  int64_t read_ = 0;
  int64_t taken_ = 0;
  double first_taken_s_ = 0;
};

}  // namespace lockstep::inputs
