#include "lockstep/results/record/launches.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/measure/interval.h"
#include "lockstep/measure/stopping.h"
#include "lockstep/results/record/baseline.h"

namespace lockstep::results {
namespace {

template <typename T>
void append(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

/// Appends the elements that `all` does not hold yet.
template <typename T>
void append_missing(std::vector<T>& all, const std::vector<T>& more) {
  for (const T& one : more) {
    if (std::ranges::find(all, one) == all.end()) all.push_back(one);
  }
}

/// Appends warnings; one whose text is known counts for one launch more.
void append_warnings(std::vector<Warning>& all, const std::vector<Warning>& more) {
  for (const Warning& warning : more) {
    const auto known = std::ranges::find(all, warning.text, &Warning::text);
    if (known == all.end()) {
      all.push_back(warning);
    } else {
      known->launches += warning.launches;
    }
  }
}

/// Marks the samples as one launch, unless marked.
void count_launches(Run& run) {
  if (!run.launch_steps.empty()) return;
  run.launch_steps = {static_cast<int>(run.samples.size())};
  run.launch_warmup_steps = {static_cast<int>(run.warmup_samples.size())};
}

/// The geometric mean of the rates of all launches of two runs. Every launch counts as much as any other, as
/// it does in the interval and in a comparison.
double mean_rate(const Run& run, const Run& more) {
  if (!(run.images_per_s > 0) || !(more.images_per_s > 0))
    return std::max(run.images_per_s, more.images_per_s);
  const double before = launches(run);
  const double added = launches(more);
  return std::exp((before * std::log(run.images_per_s) + added * std::log(more.images_per_s)) /
                  (before + added));
}

/// Adds the same row of another launch. Measurements that cannot be pooled (breakdown, queues) are the later
/// launch's; the baseline's second measurement is the one that drifted most.
void add_launch(Run& run, Run launch) {
  count_launches(run);
  count_launches(launch);
  run.images_per_s = mean_rate(run, launch);
  run.elapsed_s += launch.elapsed_s;
  append(run.samples, launch.samples);
  append(run.warmup_samples, launch.warmup_samples);
  append(run.launch_steps, launch.launch_steps);
  append(run.launch_warmup_steps, launch.launch_warmup_steps);
  run.warmup_steps += launch.warmup_steps;
  run.warmup_choice = std::move(launch.warmup_choice);
  run.stopped = std::move(launch.stopped);
  if (!launch.unsettled.empty()) run.unsettled = std::move(launch.unsettled);
  run.loss_last = launch.loss_last;
  append_warnings(run.warnings, launch.warnings);
  if (launch.breakdown) {
    run.breakdown = std::move(launch.breakdown);
    run.recorded = std::move(launch.recorded);
  }
  const auto drift = [](const Run& one) { return one.again ? std::abs(std::log(one.again->ratio)) : -1; };
  if (drift(launch) > drift(run)) run.again = std::move(launch.again);
  run.own_measures = std::move(launch.own_measures);
  run.input_queues = std::move(launch.input_queues);
  if (launch.resources) run.resources = std::move(launch.resources);
  if (!launch.gpu_use.empty()) run.gpu_use = std::move(launch.gpu_use);
  if (launch.memory) run.memory = std::move(launch.memory);
  if (launch.predicted_memory) run.predicted_memory = std::move(launch.predicted_memory);
  if (launch.tuning) run.tuning = std::move(launch.tuning);
  if (launch.replica_checks) {
    if (run.replica_checks) launch.replica_checks->checks += run.replica_checks->checks;
    run.replica_checks = std::move(launch.replica_checks);
  }
  run.step_s = measure::step_percentiles(representative_steps_by_launch(run));
  assign_intervals(run);
}

std::vector<Samples> samples_by_launch(const Run& run) {
  Samples left(run.samples);
  if (run.launch_steps.size() < 2) return {left};
  std::vector<Samples> launches;
  for (const int steps : run.launch_steps) {
    // A file may promise more steps than it has: the last launch then gets fewer.
    launches.push_back(left.first(std::min(left.size(), static_cast<size_t>(steps))));
    left = left.subspan(launches.back().size());
  }
  return launches;
}

/// Throws ConfigError where samples of the two launches must not be pooled.
void require_same(const char* what, const std::string& before, const std::string& now) {
  if (before == now) return;
  throw ConfigError(
      fmt::format("a launch cannot be added to a record of another {}: '{}' there, '{}' now", what, before,
                  now),
      "Write it to a file of its own, without --append, and compare the two with 'lockstep diff'.");
}

/// The processor of rank 0's host; empty for a record without machines.
std::string processor_of(const RunRecord& record) {
  return record.machines.empty() ? "" : record.machines.front().processor;
}

/// The GPU of rank 0, a rank that every launch has.
std::string gpu_of(const RunRecord& record) {
  return record.rank_gpus.empty() ? "" : record.rank_gpus.front().name;
}

}  // namespace

std::vector<std::vector<double>> representative_steps_by_launch(const Run& run) {
  std::vector<std::vector<double>> by_launch;
  for (const Samples launch : samples_by_launch(run))
    by_launch.push_back(representative_steps(launch, run.coupled));
  return by_launch;
}

std::vector<double> launch_rates(const Run& run) {
  std::vector<double> rates;
  for (const Samples launch : samples_by_launch(run)) {
    double rate = 0;
    const auto add = [&](double ranks, const std::vector<double>& steps) {
      const double sum_s = std::accumulate(steps.begin(), steps.end(), 0.0);
      if (sum_s > 0) rate += ranks * run.images_per_rank_step() * static_cast<double>(steps.size()) / sum_s;
    };
    if (run.coupled) {
      add(run.ranks, per_step_maxima(launch));
    } else {
      for (int rank = 0; rank < run.ranks; ++rank) add(1, steps_of_rank(launch, static_cast<size_t>(rank)));
    }
    rates.push_back(rate);
  }
  return rates;
}

int launches(const Run& run) {
  return std::max(1, static_cast<int>(run.launch_steps.size()));
}

void assign_intervals(Run& run) {
  run.step_interval_s.reset();
  run.rate_interval.reset();
  if (!run.finished()) run.step_interval_s = run.rate_interval = Interval{.missing = kUnfinished};
  if (run.samples.empty() || !run.finished()) return;
  const auto by_launch = representative_steps_by_launch(run);
  const measure::Estimate median = measure::quantile_estimate(by_launch, 0.5);
  const measure::Estimate mean = measure::mean_estimate(by_launch);
  run.step_interval_s.emplace();
  run.rate_interval.emplace();
  // Steps within a decay look settled by themselves. The reason holds for all launches.
  if (run.unsettled == measure::kWarmupNotOver) {
    run.step_interval_s->missing = run.rate_interval->missing = fmt::format("not settled: {}", run.unsettled);
    return;
  }
  if (median.interval) {
    run.step_interval_s->low = median.interval->lower;
    run.step_interval_s->high = median.interval->upper;
  } else {
    run.step_interval_s->missing = median.reason_text;
  }
  if (mean.interval && mean.interval->lower > 0) {
    run.rate_interval->low = run.images_per_s * mean.value / mean.interval->upper;
    run.rate_interval->high = run.images_per_s * mean.value / mean.interval->lower;
  } else {
    run.rate_interval->missing = mean.reason_text.empty() ? "not enough data" : mean.reason_text;
  }
}

void add_launch(RunRecord& record, RunRecord launch) {
  // Earlier launches have ended, whatever their end was.
  for (Run& run : record.runs) {
    if (run.unfinished == kNotEnded) run.unfinished = "its run ended without a word";
  }
  if ((record.source == kRecordedSource) != (launch.source == kRecordedSource)) {
    throw ConfigError("a recording of PyTorch's profiler and a launch of lockstep's own cannot be one record",
                      "Write it to a file of its own, without --append.");
  }
  require_same("version of lockstep", record.lockstep_version, launch.lockstep_version);
  require_same("version of LibTorch", record.torch_version, launch.torch_version);
  require_same("processor", processor_of(record), processor_of(launch));
  if (record.rank_gpus.empty()) {
    record.rank_gpus = launch.rank_gpus;
    record.cuda_version = launch.cuda_version;
    record.cudnn_version = launch.cudnn_version;
  }
  if (!launch.rank_gpus.empty()) {
    require_same("GPU", gpu_of(record), gpu_of(launch));
    require_same("version of CUDA", record.cuda_version, launch.cuda_version);
    require_same("version of cuDNN", record.cudnn_version, launch.cudnn_version);
  }
  // The first launch that had fused kernels names their library; later ones must have the same.
  if (record.kernel_detail.empty()) record.kernel_detail = launch.kernel_detail;
  if (!launch.kernel_detail.empty())
    require_same("library of fused kernels", record.kernel_detail, launch.kernel_detail);
  if (record.launches_started_at.empty()) record.launches_started_at = {record.started_at};
  if (launch.launches_started_at.empty()) launch.launches_started_at = {launch.started_at};
  append(record.launches_started_at, launch.launches_started_at);
  append_warnings(record.warnings, launch.warnings);
  append_missing(record.bucket_sizes_mb, launch.bucket_sizes_mb);
  append_missing(record.strategies, launch.strategies);
  append_missing(record.kernels, launch.kernels);
  for (KernelTrial& trial : launch.kernel_trials) {
    const auto same = [&](const KernelTrial& known) { return known.same_rows(trial); };
    if (std::ranges::none_of(record.kernel_trials, same)) record.kernel_trials.push_back(std::move(trial));
  }
  for (Run& run : launch.runs) {
    const auto known =
        std::ranges::find_if(record.runs, [&](const Run& other) { return same_row(other, run); });
    if (known == record.runs.end()) {
      record.runs.push_back(std::move(run));
    } else {
      add_launch(*known, std::move(run));
    }
  }
  record.incomplete = launch.incomplete;
  record.ranks = std::max(record.ranks, launch.ranks);
  assign_baselines(record);
  assign_factors(record);
}

}  // namespace lockstep::results
