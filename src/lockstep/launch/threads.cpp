#include "lockstep/launch/threads.h"

#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

bool follows_from_another(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
    // Thrown in the threads that another one's failure made leave (on_failure).
  } catch (const CommError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

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
        const std::exception_ptr error = std::current_exception();
        // Held during on_failure, which its contract calls one at a time.
        const std::lock_guard lock(mutex);
        if (!first || (follows_from_another(first) && !follows_from_another(error))) first = error;
        if (on_failure) on_failure(rank, error);
      }
    });
  }
  // Joins them all, so that nobody writes `first` any more.
  threads.clear();
  if (first) std::rethrow_exception(first);
}

}  // namespace lockstep::launch
