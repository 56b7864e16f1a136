#pragma once

#include <string>
#include <vector>

#include "lockstep/train/rows/sweep.h"

#include "bench_options.h"
#include "rank_job.h"

namespace lockstep::cli {

/// What every rank of a bench knows before it has met the others; the same in all of them.
struct BenchPlan {
  BenchOptions options;
  std::vector<train::RowPlan> rows;
  std::vector<std::string> command;
  /// Where rank 0 keeps the record after every row.
  std::string record_path;
  BaselineChoice baseline;
  /// --repeat: which of how many launches this is, counted from 1.
  int launch = 1;
  int launches = 1;
};

/// What one rank does: measures its rows, and in rank 0 prints and writes the results. Collective over the
/// job.
void measure_rows(const BenchPlan& plan, const RankJob& job, const JobRank& rank);

}  // namespace lockstep::cli
