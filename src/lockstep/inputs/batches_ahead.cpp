#include "lockstep/inputs/batches_ahead.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "lockstep/inputs/staged.h"

namespace lockstep::inputs {

BatchesAhead::BatchesAhead(feed::QueueUse use, const char* name, Work work)
    : producers_(use.producers), name_(name), work_(std::move(work)), ring_(std::move(use)) {}

BatchesAhead::~BatchesAhead() {
  ring_.close();
  for (std::thread& thread : threads_) thread.join();
}

const Batch& BatchesAhead::next() {
  for (auto missing = static_cast<int>(threads_.size()); missing < producers_; ++missing) {
    threads_.emplace_back([this] { run(); });
  }
  return *ring_.next();
}

void BatchesAhead::run() {
  name_this_thread(name_);
  try {
    work_(ring_);
  } catch (...) {
    ring_.fail(std::current_exception());
  }
}

feed::QueueUse queue_of_described(const InputOptions& options, const char* name, int producers) {
  feed::QueueUse use = queue_of(options, name, std::max(options.prefetch, producers), producers);
  use.bytes_per_batch = 0;
  for (const Description& described : options.described) {
    use.bytes_per_batch += options.batch * described.bytes_per_sample();
  }
  return use;
}

}  // namespace lockstep::inputs
