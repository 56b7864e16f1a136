#include "cli/in_process.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "commands.h"
#include "console.h"

/// Set for ranks that a command would start as processes: copies of this program, which would run its tests.
constexpr const char* kRunsHere = "LOCKSTEP_TEST_RUNS_HERE";

namespace lockstep::test {

Finished run_here(const std::vector<std::string>& command) {
  ::setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
  ::setenv("LOCKSTEP_PLUGIN_PATH", LOCKSTEP_PLUGINS, 1);
  ::setenv(kRunsHere, "1", 1);
  cli::set_quiet(false);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Finished finished;
  finished.exit_code = cli::run_program(command);
  finished.output = testing::internal::GetCapturedStdout();
  finished.error = testing::internal::GetCapturedStderr();
  ::unsetenv(kRunsHere);
  return finished;
}

}  // namespace lockstep::test

int main(int argc, char** argv) {
  if (std::getenv(kRunsHere) != nullptr) return lockstep::kExitFailed;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
