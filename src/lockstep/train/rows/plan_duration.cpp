#include "lockstep/train/rows/plan_duration.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "lockstep/inputs/sources.h"
#include "lockstep/models/model.h"
#include "lockstep/train/rows/row_rules.h"
#include "lockstep/train/rows/row_runner.h"

namespace lockstep::train {
namespace {

/// Steps that a row usually takes on a quiet machine when the precision decides.
constexpr int kUsualSteps = 60;
constexpr int kUsualWarmup = 5;

/// Start of the ranks until the first row: loading LibTorch, meeting, describing the machine.
constexpr double kStart_s = 1.5;
/// Starting and ending a row: barriers, samples brought together, the record written.
constexpr double kRow_s = 0.1;
/// Timing every primitive of a network (--limit).
constexpr double kLimit_s = 60;
/// Drawing, hashing and comparing the initial value of a parameter, and drawing a value of a batch.
constexpr double kParameter_s = 15e-9;
constexpr double kPixel_s = 10e-9;

/// Bytes of gradients that ranks of one host combine per second, all of them busy. Rough: what counts is
/// whether communication is a part of the step that matters.
double bytes_per_s(const std::string& backend) {
  if (backend == "mpi") return 1.5e9;
  return backend == "thread" ? 3e9 : 0.7e9;
}

std::string key_of(const RowPlan& row) {
  return fmt::format("{} {} {} {} {}", row.model, row.image_size, row.precision, row.kernels,
                     row.memory_format);
}

bool can_be_tried(const RowPlan& row) {
  return !on_gpu(row) && models::info_of(row.model).file == nullptr;
}

int steps_of(const PacingOptions& pacing) {
  return pacing.warmup_steps.value_or(kUsualWarmup) + pacing.steps.value_or(kUsualSteps);
}

/// Network, strategy and batches of one run of a row, and its first step.
double set_up_s(const RowPlan& row, const StepSample& sample) {
  const models::ModelInfo& info = models::info_of(row.model);
  const double pixels = static_cast<double>(info.channels) * row.image_size * row.image_size;
  return sample.build_s + sample.first_s + kParameter_s * static_cast<double>(info.parameters) +
         kPixel_s * inputs::kDeviceBatches * row.batch_per_rank * pixels;
}

}  // namespace

PlanDuration::PlanDuration(const std::vector<RowPlan>& rows, const SweepPlace& place, double budget_s)
    : place_(place), launch_s_(kStart_s) {
  std::map<std::string, RowPlan> largest;
  for (const RowPlan& row : rows) {
    if (!can_be_tried(row)) continue;
    RowPlan& known = largest.try_emplace(key_of(row), row).first->second;
    if (row.batch_per_rank > known.batch_per_rank) known = row;
  }
  for (const auto& [key, row] : largest) {
    samples_[key] = sample_steps(row, budget_s / static_cast<double>(largest.size()));
  }
  std::set<std::string> limits;
  for (const RowPlan& row : rows) {
    launch_s_ += row_s(row).value_or(0);
    open_ended_ |= !row.pacing.steps;
    limits.insert(fmt::format("{} {} {} {}", row.model, row.batch_per_rank, row.image_size, row.precision));
  }
  if (place.limit) launch_s_ += kLimit_s * static_cast<double>(limits.size());
}

double PlanDuration::step_s(const RowPlan& row, const StepSample& sample) const {
  const int ranks = std::min(row.ranks, place_.local_ranks);
  double compute_s = row.accumulate * sample.step_s(row.batch_per_rank);
  // Ranks that share cores take turns.
  compute_s *= std::max(1.0, static_cast<double>(ranks) * place_.threads_per_rank / place_.cores);
  if (!communicates(row) || row.ranks == 1) return compute_s;
  const int bytes = row.parsed_options.wire == strategies::Wire::kFp32 ? 4 : 2;
  const double sent = 2.0 * (row.ranks - 1) / row.ranks * bytes * static_cast<double>(row.parameters);
  const double communication_s = sent / bytes_per_s(place_.backend);
  // Cores to spare let most of it hide behind the backward pass, which is two thirds of a step.
  const bool spare = ranks * place_.threads_per_rank < place_.cores;
  return compute_s + (spare ? std::max(0.0, communication_s - compute_s * 2 / 3) : communication_s);
}

std::optional<double> PlanDuration::row_s(const RowPlan& row) const {
  const auto known = samples_.find(key_of(row));
  if (known == samples_.end() || !can_be_tried(row)) return std::nullopt;
  const StepSample& sample = known->second;
  const double each_s = step_s(row, sample);
  double steps_s = each_s * steps_of(row.pacing);
  if (!row.pacing.steps) steps_s = std::min(std::max(steps_s, row.pacing.min_time_s), row.pacing.max_time_s);
  double duration_s = kRow_s + row.tune_budget_s + set_up_s(row, sample) + steps_s;
  const auto add_run = [&](const PacingOptions& pacing) {
    duration_s += set_up_s(row, sample) + each_s * steps_of(pacing);
  };
  if (place_.breakdown) add_run(breakdown_pacing(row));
  if (place_.layers) add_run(layers_pacing());
  return duration_s;
}

int PlanDuration::images() const {
  int most = 0;
  for (const auto& [key, sample] : samples_) most = std::max(most, sample.images);
  return most;
}

}  // namespace lockstep::train
