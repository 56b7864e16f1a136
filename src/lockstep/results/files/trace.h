#pragma once

#include <string>
#include <vector>

#include "lockstep/measure/phases.h"

namespace lockstep::results {

/// The stamped steps of one row.
struct TracedRow {
  /// "resnet50 ddp 2 ranks x 8".
  std::string label;
  std::vector<measure::RankStamps> ranks;
  /// Numbers of these ranks; empty: from 0 on.
  std::vector<int> numbers = {};
  /// Name of the ranks' kernels, before the number of their stream.
  std::string kernels = "kernels, stream";
  /// Ranks of the job where only some of them are here.
  size_t job_ranks = 0;
};

/// A trace in Chrome's event format, which Perfetto (ui.perfetto.dev) opens: a process per row of the sweep,
/// in it two tracks per rank, one with its steps and their phases, one with its buckets and how long each
/// waited for the last rank; where kernels were recorded, a track for every stream that they were in, each
/// with the gap before it. Times on rank 0's clock, rows one after the other from 0.
std::string to_trace(const std::vector<TracedRow>& rows);

}  // namespace lockstep::results
