#include "cli/row_steps.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "lockstep/results/files/record_json.h"

namespace lockstep::test {

size_t steps_in(const std::string& path, size_t row) {
  if (!std::filesystem::exists(path)) return 0;
  const results::RunRecord record = results::read_record(path);
  if (record.runs.size() <= row) return 0;
  return record.runs[row].samples.size() + record.runs[row].warmup_samples.size();
}

size_t wait_for_steps(const Program& program, const std::string& path, size_t steps, size_t row) {
  for (int waits = 0; waits < 6000; ++waits) {
    const size_t found = steps_in(path, row);
    if (found > steps) return found;
    ::usleep(20'000);
  }
  ADD_FAILURE() << "no steps in " << path << "\n" << program.error();
  return 0;
}

}  // namespace lockstep::test
