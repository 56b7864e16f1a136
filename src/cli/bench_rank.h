#pragma once

#include <string>
#include <vector>

#include "lockstep/train/job/job_plan.h"
#include "lockstep/train/job/run_job.h"

#include "bench_options.h"
#include "live_record.h"

namespace lockstep::cli {

/// A bench as every rank knows it before the ranks meet; the same in all of them.
struct BenchPlan {
  BenchOptions options;
  /// The rows to measure, and the ranks that measure them.
  train::JobPlan job;
  BaselineChoice baseline;
  Arguments command;
  /// The file in which rank 0 leaves the record at the end.
  std::string record_path;
  /// Where the record is meanwhile (ResultFiles::place).
  std::string place;
  /// This launch among those of --repeat, counted from 1.
  int launch = 1;
  int launches = 1;
};

/// The work of one rank: measures its rows; rank 0 also keeps them in `live`, and prints and writes the
/// results. Collective over the job.
void measure_rows(const BenchPlan& plan, const train::JobRank& rank, LiveRecord& live);

}  // namespace lockstep::cli
