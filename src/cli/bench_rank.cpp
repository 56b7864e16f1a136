#include "bench_rank.h"

#include <memory>
#include <optional>

#include <fmt/format.h>

#include "lockstep/results/files/json_writer.h"
#include "lockstep/topology/inspect_system.h"
#include "lockstep/train/rows/out_of_memory.h"
#include "lockstep/train/rows/row_layers.h"
#include "lockstep/train/rows/row_runner.h"
#include "lockstep/train/rows/tune.h"

#include "row_limits.h"
#include "scribe.h"
#include "subgroups.h"

namespace lockstep::cli {
namespace {

/// Every rank tells rank 0 its processors, and one rank per host its machine. Collective over the job.
void tell_machine(const BenchRank& rank) {
  const std::string number = std::to_string(rank.environment.rank);
  const auto local = static_cast<size_t>(rank.environment.local_rank);
  const std::vector<std::vector<int>>& cpus = rank.job.binding().cpus;
  rank.store.set("cpus/" + number, local < cpus.size() ? launch::format_cpus(cpus[local]) : "");
  std::string told;
  if (rank.environment.local_rank == 0) {
    topology::Machine machine = rank.job.machine();
    machine.map = topology::inspect_gpus();
    told = results::machine_to_json(machine);
  }
  rank.store.set("machine/" + number, told);
}

/// What the ranks must have in common beside the job's own.
train::Facts facts_of(const BenchPlan& plan) {
  train::Facts facts = train::facts_of(plan.rows);
  facts.push_back({"--breakdown", plan.options.breakdown ? "on" : "off"});
  facts.push_back({"--trace", plan.options.trace_path.empty() ? "off" : "on"});
  facts.push_back({"--layers", plan.options.layers ? "on" : "off"});
  facts.push_back({"--limit", plan.options.limit ? "on" : "off"});
  return facts;
}

/// All that is measured of a row, in runs of their own. Collective over `group`; the samples are there on its
/// rank 0.
MeasuredRow measure_row(train::RowPlan row, size_t index, const train::RankGroup& group,
                        const BenchRank& rank, std::optional<Scribe>& scribe) {
  MeasuredRow measured;
  if (row.tune_budget_s > 0) {
    measured.tuning = train::tune_buckets(row, group, rank.progress);
    row.bucket_mb = measured.tuning->chosen_mb;
    rank.progress.begin(row.label());
    // What is left is told from here on.
    if (scribe) scribe->row_begins(index);
  }
  if (auto samples = train::run_row(row, group, rank.progress))
    measured.samples = std::move(*samples);
  if (rank.plan.options.breakdown) {
    rank.progress.begin("breakdown of " + row.label());
    measured.stamps = train::break_down_row(row, group, rank.progress);
    // A processor's operations are no more than its phases; a GPU's kernels have gaps between them.
    if (!rank.plan.options.trace_path.empty() && rank.job.on_gpus()) {
      rank.progress.begin("kernels of " + row.label());
      measured.kernels = train::trace_kernels(row, group, rank.progress);
    }
  }
  if (rank.plan.options.layers) {
    rank.progress.begin("layers of " + row.label());
    measured.layers = train::time_layers(row, group, rank.progress);
  }
  measured.row = std::move(row);
  return measured;
}

}  // namespace

void measure_rows(const BenchPlan& plan, const RankJob& job, const JobRank& job_rank) {
  agree_on("bench", facts_of(plan), job.options(), job_rank);
  const BenchRank rank{job_rank, plan, job, compare_gpus(job, job_rank)};
  tell_machine(rank);
  std::optional<Scribe> scribe;
  if (rank.environment.rank == 0) scribe.emplace(rank);

  const JobLinks links = connect_all(job, rank);
  const Subgroups subgroups(links, plan.rows);
  RowLimits limits(rank);
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    train::RowPlan row = rank.own(plan.rows[i]);
    const std::string done = fmt::format("row/{}/done", i);
    if (rank.environment.rank >= train::training_ranks(row)) {
      rank.progress.begin("waiting for " + row.label());
      rank.store.get(done, kUntilRowEnds);
      continue;
    }
    const limit::Limit* limit = plan.options.limit ? limits.of(row) : nullptr;
    rank.progress.begin(row.label());
    if (scribe) scribe->row_begins(i);
    MeasuredRow measured;
    train::with_fitting_batch(row, [&] { measured = measure_row(row, i, subgroups.of(row), rank, scribe); });
    if (!scribe) continue;
    if (limit != nullptr) {
      measured.limit_images_per_s = limit->images_per_s();
      add_limits(measured.layers, *limit);
    }
    scribe->row_ends(i, std::move(measured));
    rank.store.set(done, "1");
  }
  links.control->barrier()->wait();
  if (scribe) scribe->finish();
}

}  // namespace lockstep::cli
