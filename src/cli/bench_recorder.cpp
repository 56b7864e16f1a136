#include "bench_recorder.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iterator>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "lockstep/base/allocator.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/comm/backend.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/launches.h"
#include "lockstep/results/record/machine_warnings.h"
#include "lockstep/topology/inspect.h"
#include "lockstep/train/job/versions.h"
#include "lockstep/train/rows/row_rules.h"

#include "console.h"
#include "output_files.h"

namespace lockstep::cli {
namespace {

results::RunRecord describe_job(const BenchRank& rank) {
  const BenchOptions& options = rank.plan.options;
  results::RunRecord record;
  record.lockstep_version = train::lockstep_version();
  record.torch_version = train::torch_version();
  record.backend_detail = comm::backend_status(rank.plan.job.site.options.backend).detail;
  if (rank.plan.job.site.on_gpus()) {
    record.cuda_version = train::cuda_version();
    record.cudnn_version = train::cudnn_version();
    record.rank_gpus = rank.gpus;
  }
  for (const train::RowPlan& row : rank.plan.job.rows) {
    if (std::ranges::find(record.kernels, row.kernels) == record.kernels.end())
      record.kernels.push_back(row.kernels);
    if (record.kernel_detail.empty())
      record.kernel_detail = kernels::kernel_detail(row.kernels, train::on_gpu(row));
  }
  record.started_at = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  record.command = rank.plan.command;
  record.launch = rank.plan.job.site.options.launch;
  record.binding = rank.plan.job.site.options.bind;
  // Set when the program began; a second call only says how.
  record.allocator = keep_freed_pages();
  record.ranks = train::most_ranks(rank.plan.job.rows);
  record.threads_per_rank = rank.binding.threads_per_rank;
  record.strategies = options.sweep.strategies;
  record.distributed_backend = rank.plan.job.site.options.backend;
  record.bucket_size_mb = options.sweep.bucket_mb.front();
  record.bucket_sizes_mb = options.sweep.bucket_mb;
  record.baseline_strategy = rank.plan.baseline.strategy;
  record.baseline_ranks = rank.plan.baseline.ranks;
  return record;
}

/// Reports of all ranks on their machines. hosts_before[n]: hosts among the first n ranks.
void collect_machines(const BenchRank& rank, results::RunRecord& record, std::vector<int>& hosts_before) {
  // Each rank has published its processors, one rank per host the machine, and the others an empty text:
  // counting the machines on the way counts the hosts.
  hosts_before.assign(1, 0);
  std::vector<topology::RankMask> masks;
  const std::chrono::duration<double> patience{60};
  for (int other = 0; other < rank.environment.world; ++other) {
    record.rank_cpus.push_back(rank.store.get(fmt::format("cpus/{}", other), patience));
    masks.push_back(from_bytes<topology::RankMask>(rank.store.get(fmt::format("mask/{}", other), patience)));
    const std::string machine = rank.store.get(fmt::format("machine/{}", other), patience);
    if (!machine.empty()) record.machines.push_back(results::machine_from_json(machine));
    hosts_before.push_back(static_cast<int>(record.machines.size()));
  }
  topology::unite_masks(masks, record.machines);
  const results::HostPlan host_plan{.ranks = rank.environment.local_world,
                                    .threads_per_rank = rank.binding.threads_per_rank};
  for (const topology::Machine& machine : record.machines) {
    for (results::Warning& warning : results::machine_warnings(machine, host_plan)) {
      if (record.machines.size() > 1) warning.text = fmt::format("{}: {}", machine.host, warning.text);
      record.warnings.push_back(std::move(warning));
    }
  }
  std::ranges::move(results::host_differences(record.machines), std::back_inserter(record.warnings));
  for (results::Warning& warning : results::shared_gpu_warnings(record.rank_gpus)) {
    record.warnings.push_back(std::move(warning));
  }
}

}  // namespace

namespace {

/// The record that this launch is added to; empty: there is none.
std::string earlier_launches(const BenchPlan& plan) {
  if (plan.launch > 1) return plan.place;
  return plan.options.append && holds_something(plan.record_path) ? plan.record_path : "";
}

}  // namespace

ResultFiles result_files(const BenchPlan& plan) {
  return {.record_path = plan.record_path,
          .place = plan.place,
          .json_path = plan.options.json_path,
          .csv_path = plan.options.csv_path,
          .how = plan.options.how,
          .last_launch = plan.launch == plan.launches};
}

BenchRecorder::BenchRecorder(const BenchRank& rank, LiveRecord& live, launch::StepBoard board)
    : rank_(rank), live_(live), keeper_(result_files(rank.plan)), record_(describe_job(rank)) {
  check_files(rank.plan.options);
  if (const std::string earlier = earlier_launches(rank.plan); !earlier.empty())
    earlier_ = results::read_record(earlier);
  collect_machines(rank, record_, hosts_before_);
  if (rank.plan.launch == 1) print_header(record_, rank.plan.options.how);
  if (rank.plan.launches > 1)
    print_note(fmt::format("launch {} of {}", rank.plan.launch, rank.plan.launches));
  line_ = std::make_unique<ProgressLine>(rank.plan.job.rows, rank.progress);
  live_.start(keeper_.file(), std::move(board), whole_record());
}

void BenchRecorder::row_begins(size_t index) {
  line_->row_begins(index);
}

train::RowPlan BenchRecorder::completed(train::RowPlan row) const {
  row.backend = rank_.plan.job.site.options.backend;
  row.threads_per_rank = rank_.binding.threads_per_rank;
  // A row runs on the first ranks of the job.
  row.hosts = hosts_before_[static_cast<size_t>(row.ranks)];
  return row;
}

void BenchRecorder::row_trains(const train::RowPlan& row) {
  live_.row_begins(completed(row));
}

void BenchRecorder::row_is_trained(train::RowResult measured) {
  measured.row = completed(std::move(measured.row));
  live_.row_is_trained(train::run_of(measured));
}

void BenchRecorder::row_ends(size_t index, train::RowResult measured) {
  measured.row = completed(std::move(measured.row));
  results::Run run = train::run_of(measured);
  line_->row_ends(index, run.images_per_s);
  record_.runs.push_back(std::move(run));
  // Anew after every row: the baseline may come after rows that refer to it.
  results::assign_baselines(record_);
  results::assign_factors(record_);
  live_.row_ends(whole_record());
  if (!measured.stamps.empty() && !rank_.plan.options.trace_path.empty()) {
    traced_.push_back({measured.row.label(), measured.kernels.empty() ? measured.stamps : measured.kernels});
  }
}

void BenchRecorder::finish() {
  // Ended first, so that its thread draws nothing into the tables.
  line_.reset();
  live_.stop();
  if (!traced_.empty()) write_file_atomically(rank_.plan.options.trace_path, results::to_trace(traced_));
  keeper_.finish(whole_record());
}

results::RunRecord BenchRecorder::whole_record() const {
  if (!earlier_) return record_;
  results::RunRecord whole = *earlier_;
  results::add_launch(whole, record_);
  return whole;
}

}  // namespace lockstep::cli
