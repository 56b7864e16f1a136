#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lockstep/measure/phases.h"
#include "lockstep/results/files/trace.h"
#include "lockstep/results/record/run_record.h"
#include "lockstep/train/rows/row_runner.h"

#include "bench_rank.h"
#include "progress_line.h"
#include "result_keeper.h"

namespace lockstep::cli {

/// One rank of a bench.
struct BenchRank : train::JobRank {
  const BenchPlan& plan;
  /// [rank]: of the ranks that rows need, on rank 0; empty on CPUs.
  std::vector<topology::RankGpu> gpus;
};

/// Where the results of this launch go.
ResultFiles result_files(const BenchPlan& plan);

/// What came of a row, on rank 0.
struct MeasuredRow {
  /// As it was measured: with the cap of a bucket that was found for it.
  train::RowPlan row;
  train::RowSamples samples;
  /// Of the breakdown run; empty without one.
  std::vector<measure::RankStamps> stamps;
  /// Of the run that a trace shows instead of that one, with the kernels; empty without one.
  std::vector<measure::RankStamps> kernels;
  /// Where one was asked for.
  std::optional<results::BucketTuning> tuning;
  std::optional<double> limit_images_per_s;
  std::vector<results::LayerTimes> layers;
};

/// What rank 0 does beside training: the record, the progress line, the files.
class Scribe {
 public:
  /// Waits for what the ranks tell of their machines.
  explicit Scribe(const BenchRank& rank);

  void row_begins(size_t index);
  void row_ends(size_t index, MeasuredRow measured);
  void finish();

 private:
  /// This launch, after those that the file held already.
  results::RunRecord whole_record() const;

  const BenchRank& rank_;
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
