#include "plan_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/units.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/train/rows/plan_duration.h"

namespace lockstep::cli {
namespace {

/// Seconds of training that an estimate may take.
constexpr double kBudget_s = 1.8;

/// "3 + 20": warm-up and measured steps; "auto" for a number that the run itself finds.
std::string steps_text(const train::PacingOptions& pacing) {
  const auto text = [](const std::optional<int>& steps) { return steps ? std::to_string(*steps) : "auto"; };
  return text(pacing.warmup_steps) + " + " + text(pacing.steps);
}

std::string heading(const train::JobPlan& job) {
  const train::JobOptions& how = job.site.options;
  const char* gpu = !how.on_gpus() ? "" : how.share_device ? " and a GPU that may be shared" : " and a GPU";
  return fmt::format("{}, up to {} with {}{} each, backend {}, launched as {}\n",
                     counted(static_cast<int>(job.rows.size()), "row"), counted(job.ranks, "rank"),
                     counted(job.binding.threads_per_rank, "thread"), gpu, how.backend, how.launch);
}

train::SweepPlace place_of(const BenchPlan& plan) {
  const train::JobPlan& job = plan.job;
  return {.backend = job.site.options.backend,
          .local_ranks = job.local_ranks(),
          .cores = std::max(1, job.site.machine.cores),
          .threads_per_rank = job.binding.threads_per_rank,
          .breakdown = plan.options.breakdown,
          .layers = plan.options.layers,
          .limit = plan.options.limit};
}

/// The sum of all launches, and the basis of the estimate.
std::string closing(const BenchPlan& plan, const train::PlanDuration& duration, double took_s) {
  if (plan.job.site.on_gpus()) return "the time on GPUs is not estimated\n";
  if (duration.images() == 0) return "the time of networks from files is not estimated\n";
  std::string text = fmt::format("about {} in all", format_duration(duration.launch_s() * plan.launches));
  if (plan.launches > 1) text += fmt::format(", in {} launches", plan.launches);
  text += fmt::format(", judging by training steps of up to {}, which took {}\n",
                      counted(duration.images(), "image"), format_duration(took_s));
  if (plan.options.limit) text += "with a minute for the limit of each network, batch and precision\n";
  if (duration.open_ended()) {
    text += fmt::format("steps end when the median is known well enough, or after {} per row (--max-time)\n",
                        format_duration(plan.options.sweep.pacing.max_time_s));
  }
  return text;
}

}  // namespace

std::string plan_text(const BenchPlan& plan) {
  const train::JobPlan& job = plan.job;
  const double begin_s = now_s();
  const train::PlanDuration duration(job.rows, place_of(plan), kBudget_s);
  const double took_s = now_s() - begin_s;
  size_t width = 44;
  for (const train::RowPlan& row : job.rows) width = std::max(width, row.label().size());
  constexpr const char* kColumns = "  {:<{}} {:>9} {:>13} {:>14} {:>12}\n";
  std::string text = heading(job);
  text += fmt::format(kColumns, "row", width, "bucket", "warm-up+steps", "memory/rank", "time");
  for (const train::RowPlan& row : job.rows) {
    const std::optional<double> row_s = duration.row_s(row);
    text += fmt::format(kColumns, row.label(), width,
                        row.tune_budget_s > 0 ? "tuned" : fmt::format("{} MiB", row.bucket_mb),
                        steps_text(row.pacing), format_bytes(train::estimate_memory(row).total_bytes()),
                        row_s ? format_duration(*row_s) : "-");
  }
  return text + closing(plan, duration, took_s);
}

}  // namespace lockstep::cli
