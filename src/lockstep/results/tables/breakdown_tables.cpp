#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/results/record/doubt.h"
#include "lockstep/results/tables/causes.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

struct Factor {
  const char* head;
  double EfficiencyFactors::*value;
  std::optional<double> EfficiencyFactors::HalfWidths::*half_width;
};

using HalfWidths = EfficiencyFactors::HalfWidths;
constexpr std::array<Factor, 4> kFactors{
    {{"= machine", &EfficiencyFactors::machine, &HalfWidths::machine},
     {"x strategy", &EfficiencyFactors::strategy, &HalfWidths::strategy},
     {"x transfer", &EfficiencyFactors::transfer, &HalfWidths::transfer},
     {"x stragglers", &EfficiencyFactors::stragglers, &HalfWidths::stragglers}}};

/// The share of a step below which a narrow screen has no room for a phase.
constexpr double kSmallPhase = 0.05;

/// Digits after the point of milliseconds that leave four of the shortest step.
int milliseconds_digits(const std::vector<const Run*>& rows) {
  double least_s = std::numeric_limits<double>::infinity();
  for (const Run* run : rows) least_s = std::min(least_s, run->breakdown->mean.step_s);
  return least_s < 0.01 ? 3 : least_s < 0.1 ? 2 : 1;
}

/// Whether the ranks of a row that communicates leave no core of some host to the communicator's threads.
bool no_core_is_spare(const RunRecord& record, const Run& run) {
  return communicates(run) && run.ranks > 1 && spare_cores(record, run).value_or(1) <= 0;
}

/// "97.3 ±1.2", in per cent.
std::string factor_text(double value, const std::optional<double>& half_width) {
  if (!half_width || !std::isfinite(value)) return fixed_text(100 * value, 1);
  // The width of an interval wider than the factor itself is meaningless.
  if (*half_width > 1) return fmt::format("{:.1f} ±>100", 100 * value);
  return fmt::format("{:.1f} ±{:.1f}", 100 * value, 100 * *half_width);
}

std::string straggler_text(const Run& run) {
  if (!run.breakdown || !run.breakdown->straggler) return kNoValue;
  return fmt::format("rank {}", *run.breakdown->straggler);
}

/// "83 %" of communication was hidden.
std::string hidden_text(const Run& run) {
  // overlap() is empty for one rank, which has nobody to hide communication from.
  return run.breakdown ? percent_text(run.breakdown->overlap(), 0) : kNoValue;
}

/// Bytes that a rank sends over its link per byte of a bucket, by the formulas of nccl-tests; empty for
/// exchanges of other kinds. `kind`: of a recorded collective; empty: that of the strategy.
std::optional<double> bus_factor(const Run& run, const std::string& kind) {
  const double share = (run.ranks - 1.0) / run.ranks;
  if (kind == "all-reduce") return 2 * share;
  if (kind == "reduce-scatter") return share;
  if (!kind.empty()) return std::nullopt;
  if (run.strategy == "sharded") return share;
  if (run.strategy == "ddp" || run.strategy == "replicated" || run.strategy == "horovod") return 2 * share;
  return std::nullopt;
}

/// Mebibytes with two digits, or as many as tell some bytes from none; "-" where a recording does not say.
std::string bytes_text(const Run& run, double bytes) {
  if (run.recorded && bytes == 0) return kNoValue;
  const double mebibytes = bytes / static_cast<double>(kMiB);
  return fixed_text(mebibytes, run.recorded && mebibytes < 0.01 ? 6 : 2);
}

/// A row for each of the first buckets of a run; the first names the run.
Table buckets_table(const std::vector<const Run*>& rows) {
  constexpr size_t kMostBuckets = 8;
  Table table{.columns = {"ranks", {"strategy", kText}, "bucket", "MiB", "ms", "algbw GB/s", "busbw GB/s"}};
  const bool recorded = std::ranges::any_of(rows, [](const Run* run) { return run->recorded.has_value(); });
  if (recorded) table.add_column({"collective", kText});
  for (const Run* run : rows) {
    const std::vector<RankBreakdown>& ranks = run->breakdown->ranks;
    for (size_t i = 0; i < std::min(kMostBuckets, ranks.front().buckets.size()); ++i) {
      const auto bytes = static_cast<double>(ranks.front().buckets[i].bytes);
      // From the arrival of the last rank to the end, mean over the ranks.
      double seconds = 0;
      for (const RankBreakdown& rank : ranks) {
        const measure::Stretch moves = moving(rank, i);
        seconds += (moves.end_s - moves.begin_s) / static_cast<double>(ranks.size());
      }
      std::optional<double> algbw, busbw;
      // Few bytes take as long as none, so their rate says nothing of a link.
      if (seconds > 0 && bytes > 0 && (!run->recorded || bytes >= kLatencyBytes))
        algbw = bytes / seconds / 1e9;
      const bool known = run->recorded && i < run->recorded->collectives.size();
      const std::string kind = known ? run->recorded->collectives[i].kind : "";
      if (const auto factor = bus_factor(*run, kind); algbw && factor) busbw = *algbw * *factor;
      std::vector<Cell> cells{i == 0 ? fmt::format("{}", run->ranks) : "",
                              i == 0 ? strategy_text(*run) : "",
                              fmt::format("{}", i + 1),
                              bytes_text(*run, bytes),
                              fixed_text(1000 * seconds, 3),
                              fixed_text(algbw, 2),
                              fixed_text(busbw, 2)};
      if (recorded) cells.emplace_back(kind);
      table.add_row(std::move(cells));
    }
  }
  return table;
}

}  // namespace

Table phases_table(const std::vector<const Run*>& rows, const std::vector<RunColumn>& names) {
  std::vector<RunColumn> columns;
  const int digits = milliseconds_digits(rows);
  const auto add = [&](const Phase& phase) {
    columns.push_back({phase.name, [seconds = phase.seconds, digits](const Run& run) {
                         const PhaseTimes& mean = run.breakdown->mean;
                         // A cell with a share that is no number shows "-" in place of it.
                         constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
                         return Cell(fixed_text(1000 * (mean.*seconds), digits),
                                     mean.step_s > 0 ? mean.*seconds / mean.step_s : kNone);
                       }});
    columns.back().column.expendable = std::ranges::all_of(rows, [&](const Run* run) {
      return run->breakdown->mean.*phase.seconds < kSmallPhase * run->breakdown->mean.step_s;
    });
  };
  add({"step", &PhaseTimes::step_s});
  std::ranges::for_each(kPhases, add);
  Table table = run_table(rows, columns, names);
  table.shares_below = true;
  return table;
}

std::vector<Remark> phases_remarks(bool recorded) {
  return {{"", std::string("Means over ranks and steps of ") +
                   (recorded ? "the profiler's window" : "a run of its own") +
                   ". waiting: for other ranks; transfer: the rest of "
                   "the communication that was not hidden."}};
}

Document phases_tables(const RunRecord& record) {
  // Publications do not measure phases as lockstep does.
  std::vector<Remark> remarks;
  if (record.source != kPublished) remarks = phases_remarks(record.source == kRecordedSource);
  if (std::ranges::any_of(record.runs,
                          [&](const Run& run) { return run.breakdown && no_core_is_spare(record, run); })) {
    remarks.push_back(
        {"",
         "No core is spare for the communicator's threads: what they copy and sum while backward goes on "
         "they take from it. Only waiting can be hidden then, and '--overlap off' may take as long."});
  }
  return grouped_tables(
      record, [](const Run& run) { return run.breakdown.has_value(); }, "Phases: {}, milliseconds per step",
      [](const std::vector<const Run*>& rows) { return phases_table(rows, ranks_and_strategy()); }, remarks);
}

Document buckets_tables(const RunRecord& record) {
  return grouped_tables(
      record,
      [](const Run& run) {
        return run.ranks > 1 && run.breakdown && !run.breakdown->ranks.empty() &&
               !run.breakdown->ranks.front().buckets.empty();
      },
      "Buckets: {}", buckets_table,
      {{"",
        "The first eight of each row. ms: from the last rank's arrival to the end, mean over ranks and "
        "steps. "
        "algbw: bytes over that time; busbw: algbw times 2(n-1)/n for all-reduce, (n-1)/n for reduce_scatter "
        "and all_gather, as in nccl-tests: comparable with the bandwidth of a link, whatever n."}});
}

bool has_factors(const Run& run) {
  return run.factors || hidden_text(run) != kNoValue;
}

Table factors_table(const std::vector<const Run*>& rows, const std::vector<RunColumn>& names) {
  std::vector<RunColumn> columns{
      {"efficiency", [](const Run& run) {
         return run.efficiency ? Cell(marked(run, fixed_text(100 * *run.efficiency, 1)), run.efficiency)
                               : kNoValue;
       }}};
  // Without the control or the breakdown there are no factors: leave out four columns of "-".
  if (std::ranges::any_of(rows, [](const Run* run) { return run->factors.has_value(); })) {
    for (const Factor& factor : kFactors) {
      columns.push_back({factor.head, [factor](const Run& run) -> Cell {
                           if (!run.factors) return kNoValue;
                           const double value = (*run.factors).*factor.value;
                           const auto& half_width = run.factors->half_width.*factor.half_width;
                           const std::string text = factor_text(value, half_width);
                           return is_impossible_factor(value, half_width) ? text + " ?" : marked(run, text);
                         }});
    }
  }
  columns.push_back({"hidden", hidden_text});
  columns.back().column.expendable = true;
  if (std::ranges::any_of(rows, [](const Run* run) { return straggler_text(*run) != kNoValue; }))
    columns.push_back({{"straggler", kText}, straggler_text});
  columns.back().column.expendable = true;
  return run_table(rows, columns, names);
}

std::vector<Remark> factors_remarks() {
  return {{"",
           "machine: shared memory, caches and power; strategy: its own copies and hooks; transfer: "
           "communication that was not hidden; stragglers: waiting for the slowest rank. hidden: the share "
           "of communication behind other work."}};
}

Document factors_tables(const RunRecord& record) {
  return grouped_tables(
      record, has_factors, "Efficiency and its factors: {}, per cent",
      [](const std::vector<const Run*>& rows) { return factors_table(rows, ranks_and_strategy()); },
      factors_remarks());
}

}  // namespace lockstep::results
