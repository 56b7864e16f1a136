#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

#include "lockstep/feed/ordered_ring.h"

namespace lockstep::inputs {

/// Slots that threads of its own fill ahead of one consumer, which gets them in order of number.
template <typename Slot>
class Ahead {
 public:
  using Ring = feed::OrderedRing<Slot>;
  /// The work of each of use.producers threads, until the ring is closed. Its error reaches next().
  using Work = std::function<void(Ring& ring)>;

  /// `name`: of the threads, at most 15 characters, for debuggers and top.
  Ahead(feed::QueueUse use, const char* name, Work work)
      : producers_(static_cast<size_t>(use.producers)),
        name_(name),
        work_(std::move(work)),
        ring_(std::move(use)) {}
  /// Closes the ring and waits for the threads.
  ~Ahead() {
    ring_.close();
    for (std::thread& thread : threads_) thread.join();
  }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  /// The next slot, valid until the next call; null after close(). The first call starts the threads.
  Slot* next() {
    while (threads_.size() < producers_) threads_.emplace_back([this] { run(); });
    return ring_.next();
  }
  feed::QueueUse use() const { return ring_.use(); }
  /// From any thread.
  void close() { ring_.close(); }

 private:
  void run() {
    ::pthread_setname_np(::pthread_self(), name_);
    try {
      work_(ring_);
    } catch (...) {
      ring_.fail(std::current_exception());
    }
  }

  size_t producers_;
  const char* name_;
  Work work_;
  Ring ring_;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::inputs
