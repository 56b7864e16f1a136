#include "recorded_trace.h"

#include <fmt/format.h>

#include "lockstep/results/files/trace.h"
#include "lockstep/train/job/versions.h"

#include "console.h"

namespace lockstep::cli {

results::RunRecord import_with_trace(recordings::ImportOptions options, const std::string& trace) {
  std::vector<measure::RankStamps> stamps;
  if (!trace.empty()) options.stamps = &stamps;
  results::RunRecord record = recordings::import_job(options);
  record.lockstep_version = train::lockstep_version();
  if (!trace.empty()) {
    const results::Run& run = record.runs.front();
    write_result(trace, results::to_trace({{.label = fmt::format("{} {}", run.model, run.strategy),
                                            .ranks = std::move(stamps),
                                            .numbers = run.recorded->ranks,
                                            .kernels = "PyTorch, track",
                                            .job_ranks = static_cast<size_t>(run.ranks)}}));
  }
  return record;
}

}  // namespace lockstep::cli
