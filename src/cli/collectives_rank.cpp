#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/units.h"
#include "lockstep/collectives/link.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/invitation.h"
#include "lockstep/comm/listening_address.h"
#include "lockstep/train/job/job_links.h"

#include "collectives_plan.h"
#include "console.h"

namespace lockstep::cli {
namespace {

using collectives::Link;
using collectives::Row;

/// Settings that the ranks must have in common beyond the job's options.
train::Fingerprint collectives_fingerprint(const CollectivesPlan& plan) {
  std::string rows;
  for (const Row& row : plan.rows) rows += fmt::format("{} {};", row.series(), row.bytes);
  uint64_t hash = train::kEmptyHash;
  train::add_text(hash, rows);
  const collectives::Pacing& pacing = plan.pacing;
  return {{"--iterations", pacing.iterations ? std::to_string(*pacing.iterations) : "auto"},
          {"--min-time", fmt::format("{:g}", pacing.min_time_s)},
          {"--warmup", std::to_string(pacing.warmup)},
          {"check", pacing.check ? "on" : "off"},
          {"rows", fmt::format("#{:016x}", hash)}};
}

/// Shows the row that is measured: on a terminal a line that is redrawn, otherwise a line per series.
class RowLine {
 public:
  explicit RowLine(size_t rows) : rows_(rows) {}
  ~RowLine() {
    if (drawn_) draw_progress("");
  }
  RowLine(const RowLine&) = delete;
  RowLine& operator=(const RowLine&) = delete;

  void begins(const Row& row) {
    const std::string series = row.series();
    ++row_;
    if (stderr_is_terminal() && !is_quiet()) {
      drawn_ = true;
      draw_progress(fmt::format("[{}/{}] {}: {}", row_, rows_, series, format_bytes(row.bytes)));
    } else if (series != series_) {
      print_note(fmt::format("[{}/{}] {} ...", row_, rows_, series));
    }
    series_ = series;
  }

 private:
  const size_t rows_;
  size_t row_ = 0;
  std::string series_;
  bool drawn_ = false;
};

/// The first ranks of the job while they measure their rows.
class RankRows {
 public:
  RankRows(const CollectivesPlan& plan, const train::JobRank& rank, RowLine& line,
           const std::function<void(const collectives::Record&)>& keep)
      : plan_(plan), rank_(rank), line_(line), keep_(keep) {}

  /// Collective over `group`.
  void measure(comm::Communicator& group, const comm::ConnectOptions& connect) {
    const bool first = rank_.environment.rank == 0;
    if (group.size() > 1) {
      rank_.progress.begin("the link");
      record_.links.push_back(measure_link(group, connect));
    }
    std::vector<std::unique_ptr<comm::Communicator>> duplicates;
    std::vector<comm::Communicator*> lanes{&group};
    for (Row row : plan_.rows) {
      if (row.ranks != group.size()) continue;
      for (int lane = int(lanes.size()); lane < row.at_a_time; ++lane)
        lanes.push_back(duplicates.emplace_back(group.duplicate()).get());
      rank_.progress.begin(row.series());
      if (first) line_.begins(row);
      collectives::measure_row(row, lanes, plan_.pacing,
                               [&](int64_t done) { rank_.progress.completed(done); });
      if (!first) continue;
      collectives::summarize(row);
      record_.rows.push_back(std::move(row));
      // Writing all rows after each would take longer than measuring them.
      if (now_s() > kept_at_s_ + 1) keep();
    }
  }

  void keep() {
    keep_(record_);
    kept_at_s_ = now_s();
  }

 private:
  Link measure_link(comm::Communicator& group, const comm::ConnectOptions& connect) const {
    // Open MPI takes shared memory within a host.
    const bool by_memory =
        group.backend() == "thread" || (group.backend() == "mpi" && rank_.environment.on_one_host());
    if (by_memory) return collectives::measure_memory(group);
    comm::ConnectOptions of_group = connect;
    of_group.size = group.size();
    const comm::Deadline deadline = comm::deadline_after(connect.timeout);
    const std::string prefix = fmt::format("link/{}/{}", group.backend(), group.size());
    return collectives::measure_sockets(
        group,
        comm::connect_ranks(rank_.store, prefix, group.rank(), group.size(),
                            comm::listening_address(rank_.store, prefix, of_group, deadline), deadline));
  }

  const CollectivesPlan& plan_;
  const train::JobRank& rank_;
  RowLine& line_;
  const std::function<void(const collectives::Record&)>& keep_;
  collectives::Record record_;
  double kept_at_s_ = 0;
};

}  // namespace

void measure_collectives(const CollectivesPlan& plan, const train::JobRank& rank,
                         const std::function<void(const collectives::Record&)>& keep) {
  train::agree_on("collectives", collectives_fingerprint(plan), plan.job, rank);
  const train::JobOptions& options = plan.job.site.options;
  const comm::ConnectOptions connect = train::connect_options(options, rank);
  const std::unique_ptr<comm::Communicator> all = comm::connect(options.backend, connect);
  RowLine line(plan.rows.size());
  RankRows rows(plan, rank, line, keep);
  std::set<int> sizes;
  for (const Row& row : plan.rows) sizes.insert(row.ranks);
  for (const int size : sizes) {
    const std::unique_ptr<comm::Communicator> part = size == all->size() ? nullptr : all->split_first(size);
    // The others sleep at the store: a blocking call of a library may poll, and would disturb.
    const std::string done = fmt::format("collectives/{}/{}", options.backend, size);
    if (rank.environment.rank >= size) {
      rank.progress.begin(fmt::format("waiting for {} ranks", size));
      rank.store.get(done, train::kUntilRowEnds);
      continue;
    }
    rows.measure(part ? *part : *all, connect);
    if (rank.environment.rank == 0) rank.store.set(done, "1");
  }
  if (rank.environment.rank == 0) rows.keep();
  all->barrier()->wait();
}

}  // namespace lockstep::cli
