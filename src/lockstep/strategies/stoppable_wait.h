#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "lockstep/comm/communicator.h"

namespace lockstep::strategies {

/// For a background thread that must be able to stop while it waits: blocks until the work is complete, and
/// throws the work's error. Returns false, with the work still in flight, if `stopping` became true first.
/// `mutex` guards `stopping`; `changed` is notified when it changes. Both must outlive the work.
inline bool wait_unless_stopping(comm::Work& work, std::mutex& mutex, std::condition_variable& changed,
                                 const bool& stopping) {
  // Shared with the callback, which may run after this function has returned.
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
