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
  /// Means of all steps whose batches are certain, and the most common batch; empty: not known.
  std::optional<double> samples_per_step;
  std::optional<int64_t> batch_size;
  std::optional<bool> has_loader;
  /// Threads that compute, cores that the process may use, cores of the host; 0: not known.
  int threads = 0;
  int cores = 0;
  int host_cores = 0;
  /// "fp32", "bf16 autocast"; empty: not known.
  std::string precision;
  /// Communication hook of DistributedDataParallel; empty: none was seen.
  std::string hook;
  int skipped_updates = 0;
  /// Per step of the window.
  measure::ProcessorTimes processor;
  /// "finished", "exception: NAME", "exit code N", "interrupted", "terminated", "killed"; "running": no end
  /// is known.
  std::string ended;
  /// Unix time, in seconds; 0: not known. Of a killed rank the last time at which it was seen.
  double ended_at = 0;
  std::vector<std::string> warnings;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    LOCKSTEP_FIELDS(kRequired, rank)
    fields("world", self.world, kAtLeastOne);
    LOCKSTEP_FIELDS(kOptional, host, torch, device, backend, strategy, command, started_at)
    LOCKSTEP_FIELDS(kRequired, step_end_s)
    LOCKSTEP_FIELDS(kOptional, window, trace, samples_per_step, batch_size, has_loader, threads, cores,
                    host_cores, precision, hook, skipped_updates, processor, ended, ended_at, warnings)
  }
};

/// Whether a text begins as `rank-R.json` does.
bool is_rank_text(std::string_view begin);
/// The same of a file. Throws Error for one that cannot be read.
bool is_rank_file(const std::filesystem::path& path);

/// Throws Error that names the file and the key for what is no rank's file of a version that is known.
RankFile parse_rank_file(std::string_view text, const std::string& name);
RankFile read_rank_file(const std::filesystem::path& path);

/// One rank of the job, as far as it is known.
struct Member {
  /// -1: not known.
  int rank = -1;
  std::optional<RankFile> file;
  /// Empty: there is none.
  std::filesystem::path trace;
  /// The trace in an archive; empty: it is a file of its own.
  std::string inside = {};
  /// Earlier windows of the same process, which are left out.
  int earlier_windows = 0;

  /// Of its trace.
  std::filesystem::path name() const { return inside.empty() ? trace : trace / inside; }
};

/// The number behind "rank" or "worker" in a file's name: "rank-3.json", "host_rank3.pt.trace.json"; -1:
/// none.
int rank_in_name(const std::filesystem::path& path);

/// The ranks whose files `paths` name: traces, files of a recording, and folders and archives (tar, zip) of
/// either. A folder without any may hold one that has them, as TensorBoard's do. Throws Error for what cannot
/// be read, and for a folder or an archive without any.
std::vector<Member> members_of(const std::vector<std::filesystem::path>& paths);

}  // namespace lockstep::recordings
