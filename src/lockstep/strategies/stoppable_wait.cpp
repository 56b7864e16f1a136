#include "lockstep/strategies/stoppable_wait.h"

#include <memory>

namespace lockstep::strategies {

bool wait_unless_stopping(comm::Work& work, std::mutex& mutex, std::condition_variable& changed,
                          const bool& stopping) {
  // The callback may come after this has returned.
  const auto complete = std::make_shared<bool>(false);
  work.on_complete([&mutex, &changed, complete] {
    const std::lock_guard lock(mutex);
    *complete = true;
    changed.notify_all();
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return stopping || *complete; });
    if (!*complete) return false;
  }
  work.test();
  return true;
}

}  // namespace lockstep::strategies
