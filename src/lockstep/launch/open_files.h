#pragma once

#include <cstdint>

namespace lockstep::launch {

/// Raises this process's soft limit on open files as far as the hard limit, and a million, allow. Returns the
/// limit that holds. Processes started later inherit it.
int64_t raise_open_files_limit();

}  // namespace lockstep::launch
