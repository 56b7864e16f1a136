#include "bench_recorder.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iterator>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "lockstep/base/allocator.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/backend.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/links/report.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/launches.h"
#include "lockstep/results/record/machine_warnings.h"
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
  record.kernel_trials = rank.kernel_trials;
  record.started_at = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  record.command = rank.plan.command;
  record.launch = rank.plan.job.site.options.launch;
  record.binding = rank.plan.job.site.options.bind;
  // Set up when the program began; a second call only returns the settings.
  record.allocator = keep_freed_pages();
  record.ranks = train::most_ranks(rank.plan.job.rows);
  record.threads_per_rank = rank.binding.threads_per_rank;
  for (const std::string& name : train::spelled_out(options.sweep.strategies)) {
    const std::string strategy = strategies::resolve(name, {}).strategy;
    if (std::ranges::find(record.strategies, strategy) == record.strategies.end())
      record.strategies.push_back(strategy);
  }
  record.memory_limit_bytes =
      static_cast<int64_t>(options.memory_limit_mb.value_or(0) * static_cast<double>(kMiB));
  record.over_memory_limit = rank.plan.over_memory_limit;
  record.distributed_backend = rank.plan.job.site.options.backend;
  record.bucket_size_mb = options.sweep.bucket_mb.front();
  record.bucket_sizes_mb = options.sweep.bucket_mb;
  record.baseline_strategy = rank.plan.baseline.strategy;
  record.baseline_ranks = rank.plan.baseline.ranks;
  return record;
}

/// Faster interfaces between hosts that idle, where `network` has a rank of each host.
std::vector<results::Warning> interface_warnings(links::Record network) {
  for (int from = 0; from < std::ssize(network.ranks); ++from) {
    for (int to = 0; to < std::ssize(network.ranks); ++to) {
      if (from != to) network.flows.push_back({.from = from, .to = to});
    }
  }
  std::vector<results::Warning> warnings;
  for (std::string& text : links::idle_interfaces(network)) {
    warnings.push_back({std::move(text), "`lockstep topo --measure` measures what the network gives."});
  }
  return warnings;
}

/// Collects the reports of all ranks on their hosts. hosts_before[n]: hosts among the first n ranks.
void collect_machines(const BenchRank& rank, results::RunRecord& record, std::vector<int>& hosts_before) {
  hosts_before.assign(1, 0);
  std::vector<topology::RankMask> masks;
  links::Record network;
  const std::chrono::duration<double> patience{60};
  for (int other = 0; other < rank.environment.world; ++other) {
    auto place = from_bytes<RankPlace>(rank.store.get(RankPlace::key(other), patience));
    record.rank_cpus.push_back(std::move(place.cpus));
    masks.push_back(std::move(place.mask));
    // One rank per host sends the machine, so the machines so far are the hosts so far.
    if (place.machine) {
      network.ranks.push_back({.host = static_cast<int>(network.hosts.size()), .interface = place.interface});
      network.hosts.push_back({{.host = place.machine->host}, std::move(place.interfaces)});
      // A later launch would take the load of those before it for that of others.
      if (rank.plan.launch > 1) place.machine->load_average.reset();
      record.machines.push_back(std::move(*place.machine));
    }
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
  std::ranges::move(interface_warnings(std::move(network)), std::back_inserter(record.warnings));
  for (results::Warning& warning : results::shared_gpu_warnings(record.rank_gpus)) {
    record.warnings.push_back(std::move(warning));
  }
}

}  // namespace

std::optional<results::RunRecord> earlier_launches(const BenchPlan& plan) {
  check_files(plan.options);
  if (plan.launch > 1) return plan.kept->read();
  if (!plan.options.append || !holds_something(plan.options.json_path)) return std::nullopt;
  return results::read_record(plan.options.json_path);
}

BenchRecorder::BenchRecorder(const BenchRank& rank, LiveRecord& live, launch::StepBoard board,
                             std::optional<results::RunRecord> earlier)
    : rank_(rank), live_(live), earlier_(std::move(earlier)), record_(describe_job(rank)) {
  collect_machines(rank, record_, hosts_before_);
  if (rank.plan.launch == 1) print_header(record_, rank.plan.options.how);
  if (rank.plan.launches > 1)
    print_note(fmt::format("launch {} of {}", rank.plan.launch, rank.plan.launches));
  line_ = std::make_unique<ProgressLine>(rank.plan.job.rows, rank.progress);
  live_.start(std::move(board), whole_record());
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

void BenchRecorder::keep_row(size_t index, train::RowResult result) {
  result.row = completed(std::move(result.row));
  record_.runs.resize(std::max(record_.runs.size(), index + 1));
  record_.runs[index] = train::run_of(result);
  keep_rows();
}

std::vector<RowAgain> BenchRecorder::rows_to_measure_again() const {
  const std::vector<train::RowPlan>& rows = rank_.plan.job.rows;
  double left_s = 0;
  for (size_t i = 0; i < rows.size(); ++i)
    left_s += rows[i].pacing.time_limit_s() - record_.runs[i].elapsed_s;
  std::vector<size_t> found = results::disturbed_rows(record_);
  std::erase_if(found, [&](size_t i) {
    // Tuning takes its own time, and another process may send as many batches as the rows need.
    return rows[i].tune_budget_s > 0 || !rows[i].input_flags.address.empty();
  });
  const double share_s = left_s / static_cast<double>(found.size());
  std::vector<RowAgain> again;
  for (const size_t i : found) {
    const double most_s = std::min(share_s, rows[i].pacing.time_limit_s());
    if (most_s < rows[i].pacing.min_time_s) return {};
    again.push_back({static_cast<int>(i), std::isfinite(most_s) ? std::optional(most_s) : std::nullopt});
  }
  if (!again.empty())
    print_note(fmt::format("measuring {} again: a part was disturbed", counted(std::ssize(again), "row")));
  return again;
}

void BenchRecorder::measured_again(size_t index, const std::vector<double>& step_s) {
  results::assign_again(record_.runs[index], step_s);
  keep_rows();
}

void BenchRecorder::keep_rows() {
  // All rows anew: the baseline may come after rows that refer to it.
  results::assign_baselines(record_);
  results::assign_factors(record_);
  live_.keep(whole_record());
}

void BenchRecorder::row_ends(size_t index, const train::RowResult& result) {
  keep_row(index, result);
  line_->row_ends(index, record_.runs[index].images_per_s);
  if (!result.stamps.empty() && !rank_.plan.options.trace_path.empty()) {
    std::erase_if(traced_, [&](const auto& row) { return row.label == result.row.label(); });
    traced_.push_back({result.row.label(), result.kernels.empty() ? result.stamps : result.kernels});
  }
}

void BenchRecorder::finish() {
  // Its thread must draw nothing into the tables.
  line_.reset();
  live_.stop();
  finish_results(rank_.plan, *rank_.plan.kept, whole_record(),
                 traced_.empty() ? "" : results::to_trace(traced_));
}

results::RunRecord BenchRecorder::whole_record() const {
  if (!earlier_) return record_;
  results::RunRecord whole = *earlier_;
  results::add_launch(whole, record_);
  return whole;
}

}  // namespace lockstep::cli
