#include "bench_rank.h"

#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "lockstep/results/json_writer.h"
#include "lockstep/train/row_runner.h"

#include "scribe.h"

namespace lockstep::cli {
namespace {

/// Long enough for any row; a rank that dies meanwhile is noticed by the watch.
constexpr std::chrono::duration<double> kUntilRowEnds{30.0 * 24 * 3600};

/// Every rank tells rank 0 its processors, and one rank per host its machine. Collective over the job.
void tell_machine(const BenchRank& rank) {
  const std::string number = std::to_string(rank.environment.rank);
  const auto local = static_cast<size_t>(rank.environment.local_rank);
  const std::vector<std::vector<int>>& cpus = rank.job.binding().cpus;
  rank.store.set("cpus/" + number, local < cpus.size() ? launch::format_cpus(cpus[local]) : "");
  const bool tells = rank.environment.local_rank == 0;
  rank.store.set("machine/" + number, tells ? results::machine_to_json(rank.job.machine()) : "");
}

/// The subgroups of the sweep: the first N ranks for every N that a row needs. Made in one go, because every
/// rank of the job takes part in making each.
class Subgroups {
 public:
  Subgroups(comm::Communicator& world, const std::vector<train::RowPlan>& rows) {
    for (const train::RowPlan& row : rows) {
      if (groups_.contains(row.ranks)) continue;
      std::vector<int> ranks(static_cast<size_t>(row.ranks));
      for (int i = 0; i < row.ranks; ++i) ranks[static_cast<size_t>(i)] = i;
      groups_[row.ranks] = world.split(ranks);
    }
  }

  comm::Communicator* of(const train::RowPlan& row) const {
    const bool alone = row.ranks == 1 && !strategies::registry().get(row.strategy).traits.communicates;
    return alone ? nullptr : groups_.at(row.ranks).get();
  }

 private:
  std::map<int, std::unique_ptr<comm::Communicator>> groups_;
};

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
    if (rank.environment.rank >= row.ranks) {
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
