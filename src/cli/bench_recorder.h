#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/links/record.h"
#include "lockstep/results/files/system_json.h"
#include "lockstep/results/files/trace.h"
#include "lockstep/results/record/run_record.h"
#include "lockstep/topology/system.h"
#include "lockstep/train/job/run_job.h"
#include "lockstep/train/rows/row_result.h"

#include "bench_options.h"
#include "kept_record.h"
#include "progress_line.h"
#include "result_keeper.h"

namespace lockstep::cli {

/// One rank of a bench.
struct BenchRank : train::JobRank {
  const BenchPlan& plan;
  /// [rank]: of the ranks that rows need, on rank 0; empty on CPUs.
  std::vector<topology::RankGpu> gpus;
  std::vector<results::KernelTrial> kernel_trials;
  /// The rank's part of the step board; null: its step times are not kept.
  launch::StepTimes* steps = nullptr;
};

/// Set by `compare`: the file of its first side, whose choices of kernels hold for the other one, too.
constexpr const char* kKernelsOfVariable = "LOCKSTEP_KERNELS_OF";

/// The record of earlier launches; empty for the first. Throws ConfigError for files that are not to be lost.
std::optional<results::RunRecord> earlier_launches(const BenchPlan& plan);

/// A rank's report on the part of its host that it has.
struct RankPlace {
  /// The processors that it is pinned to ("0", "0-3"); empty where it is not.
  std::string cpus;
  topology::RankMask mask;
  /// Sent by one rank per host.
  std::optional<topology::Machine> machine;
  /// Likewise, over Gloo and several hosts: the host's interfaces, and the one that leads to the others.
  std::vector<links::Interface> interfaces;
  std::string interface;

  /// Its place in the store.
  static std::string key(int rank) { return fmt::format("place/{}", rank); }

  LOCKSTEP_DESCRIBE(kOptional, cpus, mask, machine, interfaces, interface)
};

/// A row that is measured a second time, and the seconds that it may take; empty: without a limit.
struct RowAgain {
  int row = 0;
  std::optional<double> max_time_s;

  LOCKSTEP_DESCRIBE(kOptional, row, max_time_s)
};

/// Keeps the record of a bench, its files and the progress line, on rank 0.
class BenchRecorder {
 public:
  /// Waits until every rank has published its place. Measurements go to `live`, which outlives this: a rank
  /// that ends early unwinds, and its record is still needed.
  BenchRecorder(const BenchRank& rank, LiveRecord& live, launch::StepBoard board,
                std::optional<results::RunRecord> earlier);

  /// The row's turn comes; tuning may come before its training.
  void row_begins(size_t index);
  /// Its throughput is measured from now on, as `row` says.
  void row_trains(const train::RowPlan& row);
  /// Keeps the measurements of the row so far; its breakdown may follow.
  void keep_row(size_t index, train::RowResult result);
  /// All of the row is measured.
  void row_ends(size_t index, const train::RowResult& result);
  /// Keeps the steps that a baseline made after the last row of its network.
  void measured_again(size_t index, const std::vector<double>& step_s);
  /// Disturbed rows that may be measured again, as long as all rows together take no more than their longest
  /// times.
  std::vector<RowAgain> rows_to_measure_again() const;
  /// As finish_results().
  void finish();

 private:
  /// This launch, after the earlier ones in the file.
  results::RunRecord whole_record() const;
  /// Relates all rows to their baselines anew, and keeps them.
  void keep_rows();
  /// The row with the settings that only the job knows.
  train::RowPlan completed(train::RowPlan row) const;

  const BenchRank& rank_;
  LiveRecord& live_;
  std::optional<results::RunRecord> earlier_;
  results::RunRecord record_;
  /// hosts_before_[n]: hosts among the first n ranks.
  std::vector<int> hosts_before_;
  std::vector<results::TracedRow> traced_;
  std::unique_ptr<ProgressLine> line_;
};

/// The work of one rank: measures its rows; rank 0 also keeps them in `live`, prints and writes the results,
/// and reports what cannot be written. Returns the exit code of this. Collective over the job.
int measure_rows(const BenchPlan& plan, const train::JobRank& rank, LiveRecord& live);

}  // namespace lockstep::cli
