#pragma once

#include <functional>

#include "lockstep/comm/store.h"

namespace lockstep::comm {

// The contract of every store, which their tests call. Two ends of a store may be one.

/// Values pass from one end to the other, whatever their bytes, and replace each other.
void check_values(Store& one, Store& other);
/// get() waits asleep for a key that another thread sets, names one that never comes, and goes on then.
void check_waiting(Store& store);
/// add() is atomic over threads.
void check_counting(Store& store);
/// A waiting get() learns that the server is gone, which `end_server` ends.
void check_lost_server(Store& client, const std::function<void()>& end_server);

}  // namespace lockstep::comm
