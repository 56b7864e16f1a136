#include "bench_rank.h"

#include <memory>
#include <optional>

#include <fmt/format.h>

#include "lockstep/results/json_writer.h"
#include "lockstep/train/row_runner.h"

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
  const bool tells = rank.environment.local_rank == 0;
  rank.store.set("machine/" + number, tells ? results::machine_to_json(rank.job.machine()) : "");
}

}  // namespace

void measure_rows(const BenchPlan& plan, const RankJob& job, const JobRank& job_rank) {
  const BenchRank rank{job_rank, plan, job};
  tell_machine(rank);
  std::optional<Scribe> scribe;
  if (rank.environment.rank == 0) scribe.emplace(rank);

  const std::unique_ptr<comm::Communicator> world = connect_all(job.options(), rank);
  const Subgroups subgroups(*world, plan.rows);
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const train::RowPlan& row = plan.rows[i];
    const std::string done = fmt::format("row/{}/done", i);
    if (rank.environment.rank >= train::training_ranks(row)) {
      rank.progress.begin("waiting for " + row.label());
      rank.store.get(done, kUntilRowEnds);
      continue;
    }
    rank.progress.begin(row.label());
    if (scribe) scribe->row_begins(i);
    std::optional<train::RowSamples> samples = train::run_row(row, subgroups.of(row), rank.progress);
    std::vector<measure::RankStamps> stamps;
    if (plan.options.breakdown) {
      rank.progress.begin("breakdown of " + row.label());
      stamps = train::break_down_row(row, subgroups.of(row), rank.progress);
    }
    if (!scribe) continue;
    scribe->row_ends(i, *samples, std::move(stamps));
    rank.store.set(done, "1");
  }
  world->barrier()->wait();
  if (scribe) scribe->finish();
}

}  // namespace lockstep::cli
