#include "lockstep/launch/threads.h"

#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::launch {

void run_threads(int ranks, const std::function<void(int rank)>& function,
                 const std::function<void(int rank, std::exception_ptr error)>& on_failure) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        function(rank);
      } catch (...) {
        // Held during on_failure, which its contract calls one at a time.
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        if (on_failure) on_failure(rank, std::current_exception());
      }
    });
  }
  // Joins them all, so that nobody writes `first` any more.
  threads.clear();
  if (first) std::rethrow_exception(first);
}

}  // namespace lockstep::launch
