#pragma once

#include <exception>
#include <functional>

namespace lockstep::launch {

/// Runs function(rank) for ranks 0 to ranks-1, each in a thread of its own, and returns when all have
/// returned. If one throws, `on_failure(rank, error)`, which may be null, is called at once, one call at a
/// time, so that the caller can make the others leave (close their communicators). In the end throws the
/// first error.
void run_threads(int ranks, const std::function<void(int rank)>& function,
                 const std::function<void(int rank, std::exception_ptr error)>& on_failure = nullptr);

}  // namespace lockstep::launch
