#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::recordings {

struct ImportOptions {
  /// Traces, and folders of traces or of a recording.
  std::vector<std::filesystem::path> paths;
  /// Replaces the name of the network.
  std::string name;
  /// Samples that one rank trains in a step; empty: by the recording, or by shapes in the traces.
  std::optional<int> samples_per_step;
  /// Called with each file before it is read.
  std::function<void(const std::string& file)> progress;
  /// Receives the stamped steps of every rank with a trace, and PyTorch's events in them as kernels, whose
  /// queue is the thread or stream; the first 200,000 events of a rank.
  std::vector<measure::RankStamps>* stamps = nullptr;
};

/// Reads the ranks of one job into a record with one run (source kRecordedSource). Throws Error of one
/// sentence for files that cannot be read or that are not of one job, and ConfigError where no file is named.
results::RunRecord import_job(const ImportOptions& options);

/// Adds the run of one rank to `record` as its baseline, and computes speed-up, efficiency and factors.
/// Throws ConfigError where `alone` has no run of one rank.
void add_alone(results::RunRecord& record, const results::RunRecord& alone);

}  // namespace lockstep::recordings
