#pragma once

#include <chrono>

namespace lockstep::launch {

/// Lets this process outlive the parent that it was to die with (PR_SET_PDEATHSIG), but only by `grace`: a
/// small process of its own then kills it, even when it is stopped. That one dies with this process. Call
/// from the main thread. Where the system cannot do it, all stays as it was.
void outlive_parent_by(std::chrono::milliseconds grace);

}  // namespace lockstep::launch
