#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lockstep/results/files/trace.h"
#include "lockstep/results/record/run_record.h"
#include "lockstep/train/rows/row_result.h"

#include "bench_rank.h"
#include "live_record.h"
#include "progress_line.h"
#include "result_keeper.h"

namespace lockstep::cli {

/// One rank of a bench.
struct BenchRank : train::JobRank {
  const BenchPlan& plan;
  /// [rank]: of the ranks that rows need, on rank 0; empty on CPUs.
  std::vector<topology::RankGpu> gpus;
  /// The rank's place for the times of its steps; null: they are not kept.
  launch::StepTimes* steps = nullptr;
};

/// The files that the results of this launch go to.
ResultFiles result_files(const BenchPlan& plan);

/// Keeps the record of a bench, its files and the progress line, on rank 0.
class BenchRecorder {
 public:
  /// Waits until every rank has published its machine. What is measured is kept in `live`, which outlives
  /// this: a rank that ends early unwinds, and its record is still wanted.
  BenchRecorder(const BenchRank& rank, LiveRecord& live, launch::StepBoard board);

  /// The row's turn comes; tuning may come before its training.
  void row_begins(size_t index);
  /// Its throughput is measured from now on, as `row` says; then it is known, and only its breakdown is
  /// still to come.
  void row_trains(const train::RowPlan& row);
  void row_is_trained(train::RowResult measured);
  void row_ends(size_t index, train::RowResult measured);
  void finish();

 private:
  /// This launch, after those that the file held already.
  results::RunRecord whole_record() const;
  /// The row with what only the job knows of it.
  train::RowPlan completed(train::RowPlan row) const;

  const BenchRank& rank_;
  LiveRecord& live_;
  ResultKeeper keeper_;
  /// The launches before this one; empty: it is the first.
  std::optional<results::RunRecord> earlier_;
  results::RunRecord record_;
  /// hosts_before_[n]: hosts among the first n ranks.
  std::vector<int> hosts_before_;
  std::vector<results::TracedRow> traced_;
  std::unique_ptr<ProgressLine> line_;
};

}  // namespace lockstep::cli
