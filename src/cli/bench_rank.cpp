#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "lockstep/base/json_codec.h"
#include "lockstep/comm/listening_address.h"
#include "lockstep/launch/step_board.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/topology/system.h"
#include "lockstep/train/job/job_links.h"
#include "lockstep/train/job/kernel_trials.h"
#include "lockstep/train/rows/row_runner.h"
#include "lockstep/train/rows/tune.h"

#include "bench_recorder.h"
#include "console.h"
#include "output_files.h"

namespace lockstep::cli {
namespace {

/// The cores that this rank may use by its launcher's or its parent's mask.
topology::RankMask mask_of(const train::JobSite& site) {
  topology::RankMask mask{.host = site.machine.host};
  for (const launch::Core& core : site.cores) {
    mask.cores.push_back(core.number);
    std::ranges::copy(core.cpus, std::back_inserter(mask.hardware_threads));
  }
  std::ranges::sort(mask.hardware_threads);
  return mask;
}

/// Puts this rank's report on its host into the store, for rank 0.
void publish_place(const BenchRank& rank) {
  const launch::RankEnvironment& environment = rank.environment;
  const auto local = static_cast<size_t>(environment.local_rank);
  const std::vector<std::vector<int>>& cpus = rank.binding.cpus;
  RankPlace place{.mask = mask_of(rank.plan.job.site)};
  if (environment.bound_by_launcher) {
    place.cpus = launch::format_cpus(place.mask.hardware_threads);
  } else if (local < cpus.size()) {
    place.cpus = launch::format_cpus(cpus[local]);
  }
  if (environment.local_rank == 0) {
    place.machine = rank.plan.job.site.machine;
    place.machine->map = topology::inspect_gpus();
  }
  const train::JobOptions& options = rank.plan.job.site.options;
  if (options.backend == "gloo" && !environment.on_one_host()) {
    const comm::ConnectOptions connect = train::connect_options(options, rank);
    const std::string address =
        comm::listening_address(rank.store, "place", connect, comm::deadline_after(connect.timeout));
    if (place.machine) {
      place.interfaces = links::network_interfaces();
      place.interface = links::interface_with(place.interfaces, address);
    }
  }
  rank.store.set(RankPlace::key(environment.rank), to_bytes(place));
}

/// Properties that the ranks must have in common beyond the job's options.
train::Fingerprint fingerprint_of(const BenchPlan& plan) {
  train::Fingerprint fingerprint = train::fingerprint_of(plan.job.rows);
  fingerprint.push_back({"--breakdown", plan.options.breakdown ? "on" : "off"});
  fingerprint.push_back({"--trace", plan.options.trace_path.empty() ? "off" : "on"});
  return fingerprint;
}

/// The memory that the ranks of rank 0's host keep their step times in, and the record, which a rank other
/// than 0 needs if it has to tell how rank 0 ended.
launch::StepBoard share_steps(const BenchRank& rank, LiveRecord& live) {
  constexpr const char* kBoard = "step-board";
  constexpr const char* kRecord = "record";
  const int world = rank.environment.world;
  if (rank.environment.rank == 0) {
    launch::StepBoard board = launch::StepBoard::make(world);
    rank.store.set(kRecord, rank.plan.kept->address());
    rank.store.set(kBoard, board.address());
    return board;
  }
  const std::chrono::duration<double> patience{60};
  live.set_kept(KeptRecord::open(rank.store.get(kRecord, patience)));
  return launch::StepBoard::open(rank.store.get(kBoard, patience), world);
}

/// Measures a row, each aspect in a run of its own so that none slows the others. Collective over `group`;
/// the samples are on its rank 0.
train::RowResult measure_row(train::RowPlan row, size_t index, const train::RankGroup& group,
                             const BenchRank& rank, std::optional<BenchRecorder>& recorder) {
  std::optional<results::BucketTuning> tuning;
  if (row.tune_budget_s > 0) {
    tuning = train::tune_buckets(row, group, rank.progress);
    row.bucket_mb = tuning->chosen_mb;
    rank.progress.begin(row.label());
    // The progress line counts from here: tuning takes its own time.
    if (recorder) recorder->row_begins(index);
  }
  // In this order: what is kept of the row must not be steps of the one before.
  rank.progress.keep_times(rank.steps);
  if (recorder) recorder->row_trains(row);
  train::RowResult measured = train::run_row(row, group, rank.progress);
  measured.tuning = std::move(tuning);
  rank.progress.keep_times(nullptr);
  if (rank.plan.options.breakdown) {
    if (recorder) recorder->keep_row(index, measured);
    rank.progress.begin("breakdown of " + row.label());
    measured.stamps = train::break_down_row(row, group, rank.progress);
    // A CPU's operations show no more than its phases; a GPU's kernels have gaps between them.
    if (!rank.plan.options.trace_path.empty() && rank.plan.job.site.on_gpus()) {
      rank.progress.begin("kernels of " + row.label());
      measured.kernels = train::trace_kernels(row, group, rank.progress);
    }
  }
  return measured;
}

/// The row at or after `row` behind which its baseline is measured again.
size_t last_of_network(const std::vector<train::RowPlan>& rows, int row) {
  auto last = static_cast<size_t>(row);
  while (last + 1 < rows.size() && !train::baseline_after(rows, last)) ++last;
  return last;
}

/// What rank 0 finds to measure again, on every rank.
std::vector<RowAgain> rows_again(const BenchRank& rank, const std::optional<BenchRecorder>& recorder) {
  constexpr const char* kKey = "rows-again";
  if (recorder) rank.store.set(kKey, to_bytes(recorder->rows_to_measure_again()));
  return from_bytes<std::vector<RowAgain>>(rank.store.get(kKey, std::chrono::duration<double>(60)));
}

/// Choices of kernels that hold without a trial.
std::vector<results::KernelTrial> earlier_trials(const std::optional<results::RunRecord>& earlier) {
  if (earlier) return earlier->kernel_trials;
  const char* const other_side = std::getenv(kKernelsOfVariable);
  if (other_side == nullptr || !holds_something(other_side)) return {};
  return results::read_record(other_side).kernel_trials;
}

}  // namespace

int measure_rows(const BenchPlan& asked, const train::JobRank& job_rank, LiveRecord& live) {
  BenchPlan plan = asked;
  BenchRank rank{job_rank, plan, train::agree_on("bench", fingerprint_of(plan), plan.job, job_rank)};
  const bool first = rank.environment.rank == 0;
  std::optional<results::RunRecord> earlier;
  if (first) earlier = earlier_launches(plan);
  rank.kernel_trials = train::choose_kernels(plan.job, &rank, earlier_trials(earlier));
  // Before the recorder is made: rank 0's waits in it for the places of all ranks.
  publish_place(rank);
  launch::StepBoard board = share_steps(rank, live);
  rank.steps = board.take(rank.environment.rank);
  std::optional<BenchRecorder> recorder;
  if (first) recorder.emplace(rank, live, std::move(board), std::move(earlier));

  train::JobLinks links(plan.job, rank);
  std::vector<RowAgain> rows(plan.job.rows.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i].row = static_cast<int>(i);
  // First all of them, then those that were disturbed.
  for (int turn = 1; !rows.empty(); turn += 2) {
    for (size_t place = 0; place < rows.size(); ++place) {
      const RowAgain& next = rows[place];
      const auto i = static_cast<size_t>(next.row);
      const auto measure = [&](train::RowPlan row, const train::RankGroup& group) {
        if (next.max_time_s) row.pacing.max_time_s = next.max_time_s;
        rank.progress.begin(row.label());
        if (recorder) recorder->row_begins(i);
        train::RowResult measured = measure_row(row, i, group, rank, recorder);
        if (recorder) recorder->row_ends(i, measured);
      };
      links.run_row(i, measure, turn);
      const auto last = [&](size_t at) { return last_of_network(plan.job.rows, rows[at].row); };
      if (place + 1 < rows.size() && last(place + 1) == last(place)) continue;
      const std::optional<size_t> baseline = train::baseline_after(plan.job.rows, last(place));
      if (!baseline) continue;
      const auto measure_again = [&](train::RowPlan row, const train::RankGroup& group) {
        rank.progress.begin("again, " + row.label());
        row.pacing = train::again_pacing(row);
        const train::RowResult measured = train::run_row(row, group, rank.progress);
        if (recorder) recorder->measured_again(*baseline, measured.ranks.front().step_s);
      };
      links.run_row(*baseline, measure_again, turn + 1);
    }
    rows = turn == 1 ? rows_again(rank, recorder) : std::vector<RowAgain>();
  }
  links.meet();
  try {
    if (recorder) recorder->finish();
  } catch (const std::exception& error) {
    // All was measured, so it is no failure of the rank.
    return report(error);
  }
  return kExitDone;
}

}  // namespace lockstep::cli
