#pragma once

#include <cstdlib>
#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace lockstep::test {

/// LOCKSTEP_QUIET_MACHINE=1 asks for the differences that a machine without other work allows.
inline bool quiet_machine() {
  return std::getenv("LOCKSTEP_QUIET_MACHINE") != nullptr;
}

/// Whatever else runs on the machine delays ranks and the ends of transfers by milliseconds. What a
/// disturbance costs must be found in one of several runs, each of which tells what differs (nothing: "").
inline void expect_once(const std::function<std::string()>& differences_of_a_run) {
  std::string differences;
  for (int run = 0; run < 10; ++run) {
    differences = differences_of_a_run();
    if (differences.empty()) return;
  }
  ADD_FAILURE() << differences;
}

}  // namespace lockstep::test
