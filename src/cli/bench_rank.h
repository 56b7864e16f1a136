#pragma once

#include <string>
#include <vector>

#include "lockstep/launch/binding.h"
#include "lockstep/launch/rank_environment.h"
#include "lockstep/topology/machine.h"
#include "lockstep/train/sweep.h"

#include "bench_options.h"

namespace lockstep::cli {

/// What every rank of a bench knows before it has met the others; the same in all of them.
struct BenchPlan {
  BenchOptions options;
  std::vector<train::RowPlan> rows;
  std::vector<std::string> command;
  /// This host, as it was before ranks were bound to a part of it.
  topology::Machine machine;
  /// Of the ranks on this host.
  launch::BindingPlan binding;
  /// Where rank 0 keeps the record after every row.
  std::string record_path;
  BaselineChoice baseline;
  /// --repeat: which of how many launches this is, counted from 1.
  int launch = 1;
  int launches = 1;
};

/// This process is a rank: joins the others, measures its rows, and in rank 0 prints and writes the results.
/// Returns the exit code, or leaves the process at once when a rank was lost.
int run_rank_process(const BenchPlan& plan, const launch::RankEnvironment& environment);

/// All ranks are threads of this process.
int run_rank_threads(const BenchPlan& plan, int ranks);

}  // namespace lockstep::cli
