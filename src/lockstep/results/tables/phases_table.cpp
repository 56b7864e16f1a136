#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/styles.h"

namespace lockstep::results {
namespace {

struct Phase {
  const char* name;
  double PhaseTimes::*seconds;
};

constexpr std::array<Phase, 8> kPhases{{{"step", &PhaseTimes::step_s},
                                        {"input", &PhaseTimes::input_s},
                                        {"forward", &PhaseTimes::forward_s},
                                        {"backward", &PhaseTimes::backward_s},
                                        {"waiting", &PhaseTimes::waiting_s},
                                        {"transfer", &PhaseTimes::transfer_s},
                                        {"optimizer", &PhaseTimes::optimizer_s},
                                        {"other", &PhaseTimes::other_s}}};

/// Digits after the point of milliseconds that leave four of the shortest step.
int milliseconds_digits(const std::vector<const Run*>& rows) {
  double least_s = std::numeric_limits<double>::infinity();
  for (const Run* run : rows) least_s = std::min(least_s, run->breakdown->mean.step_s);
  return least_s < 0.01 ? 3 : least_s < 0.1 ? 2 : 1;
}

std::string phases_table(const std::vector<const Run*>& rows, TextForm form) {
  const int digits = milliseconds_digits(rows);
  TextTable table;
  table.add_column("ranks");
  table.add_column("strategy", TextTable::Align::kLeft);
  for (const Phase& phase : kPhases) table.add_column(phase.name);
  for (const Run* run : rows) {
    const PhaseTimes& mean = run->breakdown->mean;
    std::vector<std::string> times{fmt::format("{}", run->ranks), strategy_text(*run)};
    std::vector<std::string> shares{"", ""};
    for (const auto& [name, seconds] : kPhases) {
      times.push_back(fmt::format("{:.{}f}", 1000 * (mean.*seconds), digits));
      shares.push_back(mean.step_s > 0 ? fmt::format("{:.1f} %", 100 * (mean.*seconds) / mean.step_s) : "-");
    }
    table.add_row(std::move(times));
    table.add_row(std::move(shares));
  }
  return table.text(form);
}

/// Whether the ranks of a row that communicates leave no core of some host to the communicator's threads.
bool no_core_is_spare(const RunRecord& record, const Run& run) {
  if (!communicates(run) || run.ranks == 1 || record.machines.empty()) return false;
  const int ranks_per_host = (run.ranks + run.hosts - 1) / std::max(1, run.hosts);
  return std::ranges::any_of(record.machines, [&](const Machine& machine) {
    return machine.cores > 0 && ranks_per_host * run.threads_per_rank >= machine.cores;
  });
}

}  // namespace

std::string phases_tables(const RunRecord& record, TextForm form) {
  std::string text;
  for (RowTable& table : row_tables(record)) {
    std::erase_if(table.rows, [](const Run* run) { return !run->breakdown; });
    if (table.rows.empty()) continue;
    if (!text.empty()) text += '\n';
    text += heading("Phases: " + table.title + ", milliseconds per step", form) +
            (form == TextForm::kTerminal ? "\n" : "") + phases_table(table.rows, form);
  }
  if (text.empty()) return text;
  text += remark("",
                 "Means over ranks and steps of a run of its own. waiting: for other ranks; transfer: "
                 "the rest of the communication that was not hidden.",
                 form);
  if (std::ranges::any_of(record.runs,
                          [&](const Run& run) { return run.breakdown && no_core_is_spare(record, run); })) {
    text += remark(
        "",
        "No core is spare for the communicator's threads: what they copy and sum while backward goes on "
        "they take from it. Only waiting can be hidden then, and '--overlap off' may take as long.",
        form);
  }
  return text;
}

}  // namespace lockstep::results
