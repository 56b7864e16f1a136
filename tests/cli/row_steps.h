#pragma once

#include <cstddef>
#include <string>

#include "cli/program.h"

namespace lockstep::test {

/// Steps of row `row` (from 0) of the record at `path`, warm-up included; 0 while there is no such file or
/// row. Throws for a file that is not whole.
size_t steps_in(const std::string& path, size_t row = 0);

/// Waits until that row has more than `steps` steps, and reads the file all the time. Returns how many it
/// has; fails the test and returns 0 after two minutes.
size_t wait_for_steps(const Program& program, const std::string& path, size_t steps, size_t row = 0);

}  // namespace lockstep::test
