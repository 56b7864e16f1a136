#pragma once

#include <exception>
#include <functional>

namespace lockstep::launch {

/// Runs function(rank) for rank 0 to ranks-1, each in a thread of its own, and returns when all have. When
/// one throws, `on_failure(rank, error)` is called at once, one call at a time, so that the caller can make
/// the others leave (close their communicators); may be null. Then throws what went wrong: the first error
/// that is not a CommError (those follow from another thread's end), else the first.
void run_threads(int ranks, const std::function<void(int rank)>& function,
                 const std::function<void(int rank, std::exception_ptr error)>& on_failure = nullptr);

}  // namespace lockstep::launch
