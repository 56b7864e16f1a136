#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "lockstep/feed/ordered_ring.h"
#include "lockstep/inputs/input.h"

namespace lockstep::inputs {

/// Batches of described tensors, prepared ahead of the training thread by threads of their own.
class BatchesAhead {
 public:
  /// What each of use.producers threads does until the ring is closed. Its error reaches next().
  using Work = std::function<void(feed::OrderedRing<Batch>& ring)>;

  /// `name`: of the threads, at most 15 characters.
  BatchesAhead(feed::QueueUse use, const char* name, Work work);
  /// Closes the ring and waits for the threads.
  ~BatchesAhead();
  BatchesAhead(const BatchesAhead&) = delete;
  BatchesAhead& operator=(const BatchesAhead&) = delete;

  /// The next batch, valid until the next call; the first call starts the threads. Not after close().
  const Batch& next();
  feed::QueueUse use() const { return ring_.use(); }
  void close() { ring_.close(); }

 private:
  void run();

  int producers_;
  const char* name_;
  Work work_;
  feed::OrderedRing<Batch> ring_;
  std::vector<std::thread> threads_;
};

/// Counters, all zero, for a queue of such batches.
feed::QueueUse queue_of_described(const InputOptions& options, const char* name, int producers);

}  // namespace lockstep::inputs
