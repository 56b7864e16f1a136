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
  const auto guarded = [&](int rank, const auto& call) {
    try {
      call();
      return true;
    } catch (...) {
      // Held during on_failure, which its contract calls one at a time.
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
      if (on_failure) on_failure(rank, std::current_exception());
      return false;
    }
  };
  // The system may have no thread left, for which those that run already must not wait.
  for (int rank = 0; rank < ranks; ++rank) {
    const auto run = [&, rank] { guarded(rank, [&] { function(rank); }); };
    if (!guarded(rank, [&] { threads.emplace_back(run); })) break;
  }
  // Joins them all, so that nobody writes `first` any more.
  threads.clear();
  if (first) std::rethrow_exception(first);
}

}  // namespace lockstep::launch
