#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/fields.h"
#include "lockstep/measure/phases.h"

namespace lockstep::recordings {

/// The file `rank-R.json` of a recording's folder: one rank of a training that was recorded.
struct RankFile {
  int rank = 0;
  int world = 1;
  std::string host;
  std::string torch;
  /// "cpu", or "cuda" with the name of the GPU.
  std::string device;
  /// Empty: the training had none.
  std::string backend;
  /// "ddp", "fsdp"; empty: neither was seen.
  std::string strategy;
  std::vector<std::string> command;
  std::string started_at;
  /// Ends of all steps, in seconds on the host's clock.
  std::vector<double> step_end_s;
  /// Indexes of the first step that begins within the profiler's window, and of the one after its last.
  std::vector<int64_t> window;
  /// File of the trace in the same folder; empty: there is none.
  std::string trace;
  std::optional<int64_t> samples_per_step;
  /// Per step of the window.
  measure::ProcessorTimes processor;
  /// "finished", or how the training ended otherwise.
  std::string ended;
  std::vector<std::string> warnings;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    LOCKSTEP_FIELDS(kRequired, rank)
    fields("world", self.world, kAtLeastOne);
    LOCKSTEP_FIELDS(kOptional, host, torch, device, backend, strategy, command, started_at)
    LOCKSTEP_FIELDS(kRequired, step_end_s)
    LOCKSTEP_FIELDS(kOptional, window, trace, samples_per_step, processor, ended, warnings)
  }
};

/// Whether a file begins as `rank-R.json` does. Throws Error for one that cannot be read.
bool is_rank_file(const std::filesystem::path& path);

/// Throws Error that names the file and the key for what is no rank's file of a version that is known.
RankFile parse_rank_file(std::string_view text, const std::string& name);
RankFile read_rank_file(const std::filesystem::path& path);

}  // namespace lockstep::recordings
