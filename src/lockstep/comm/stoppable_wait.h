#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

/// State of a background thread that can be stopped while it waits for an operation. `mutex` guards
/// `stopping`; `changed` is notified when it changes. Held in a shared_ptr: the callback of an operation that
/// was abandoned runs when the communicator is taken down, and the thread and its owner may be gone by then.
struct StopPoint {
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
};

/// Blocks until the work is complete, and throws the work's error. Returns false, with the work still in
/// flight, if the thread is to stop first.
inline bool wait_unless_stopping(Work& work, const std::shared_ptr<StopPoint>& point) {
  const auto complete = std::make_shared<bool>(false);
  work.on_complete([point, complete] {
    const std::lock_guard lock(point->mutex);
    *complete = true;
    point->changed.notify_all();
  });
  {
    std::unique_lock lock(point->mutex);
    point->changed.wait(lock, [&] { return point->stopping || *complete; });
    if (!*complete) return false;
  }
  work.test();
  return true;
}

}  // namespace lockstep::comm
