#include "plan_text.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/units.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/train/rows/row_estimate.h"

namespace lockstep::cli {
namespace {

using results::counted;

/// Start of the ranks until the first row: loading LibTorch, meeting, describing the machine.
constexpr double kStart_s = 1.5;

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

/// "12 s", or "2.5 s to 1 min 00 s".
std::string duration_text(const train::Duration& duration) {
  const std::string least = format_duration(duration.least_s);
  const std::string most = format_duration(duration.most_s);
  return least == most ? least : least + " to " + most;
}

/// Durations of rows on processors, each network tried once.
class RowDurations {
 public:
  explicit RowDurations(const BenchPlan& plan) : plan_(plan) {}

  train::Duration of(const train::RowPlan& row) {
    const std::string key = fmt::format("{} {} {} {} {} {}", row.model, row.image_size, row.batch_per_rank,
                                        row.precision, row.kernels, row.memory_format);
    if (!costs_.contains(key)) costs_[key] = train::try_steps(row);
    train::StepCost cost = costs_[key];
    // Ranks that share cores take turns.
    const train::JobPlan& job = plan_.job;
    const double threads = std::min(row.ranks, job.local_ranks()) * job.binding.threads_per_rank;
    cost.step_s *= std::max(1.0, threads / std::max(1, job.site.machine.cores));
    return train::duration_of(row, cost, plan_.options.breakdown);
  }

 private:
  const BenchPlan& plan_;
  std::map<std::string, train::StepCost> costs_;
};

/// The sum of all launches, and the basis of the estimate.
std::string closing(const BenchPlan& plan, train::Duration launch, double took_s) {
  launch.least_s *= plan.launches;
  launch.most_s *= plan.launches;
  std::string text = fmt::format("about {} in all", duration_text(launch));
  if (plan.launches > 1) text += fmt::format(", in {} launches", plan.launches);
  text += fmt::format(", without communication, judging by one step of each network, which took {}\n",
                      format_duration(took_s));
  const train::PacingOptions& pacing = plan.options.sweep.pacing;
  if (!pacing.steps) {
    text += fmt::format("steps end when the median is known well enough, or after {} per row (--max-time)\n",
                        format_duration(pacing.max_time_s));
  }
  return text;
}

}  // namespace

std::string plan_text(const BenchPlan& plan) {
  const train::JobPlan& job = plan.job;
  const double begin_s = now_s();
  RowDurations durations(plan);
  train::Duration launch{kStart_s, kStart_s};
  size_t width = 44;
  for (const train::RowPlan& row : job.rows) width = std::max(width, row.label().size());
  constexpr const char* kColumns = "  {:<{}} {:>9} {:>13} {:>14} {:>20}\n";
  std::string text = heading(job);
  text += fmt::format(kColumns, "row", width, "bucket", "warm-up+steps", "memory/rank", "time");
  for (const train::RowPlan& row : job.rows) {
    std::string time = "-";
    if (!job.site.on_gpus()) {
      const train::Duration duration = durations.of(row);
      launch.least_s += duration.least_s;
      launch.most_s += duration.most_s;
      time = duration_text(duration);
    }
    text += fmt::format(
        kColumns, row.label(), width, row.tune_budget_s > 0 ? "tuned" : fmt::format("{} MiB", row.bucket_mb),
        steps_text(row.pacing), format_bytes(train::estimate_memory(row).total_bytes()), time);
  }
  if (job.site.on_gpus()) return text + "the time on GPUs is not estimated\n";
  return text + closing(plan, launch, now_s() - begin_s);
}

}  // namespace lockstep::cli
