#pragma once

#include <condition_variable>
#include <mutex>

#include "lockstep/comm/communicator.h"

namespace lockstep::strategies {

/// For a background thread that must be able to end while it waits. Blocks until the work is complete, and
/// throws what it throws; false: `stopping` came true before, the work goes on. `mutex` guards `stopping`,
/// `changed` is notified when that changes; both outlive the work.
bool wait_unless_stopping(comm::Work& work, std::mutex& mutex, std::condition_variable& changed,
                          const bool& stopping);

}  // namespace lockstep::strategies
