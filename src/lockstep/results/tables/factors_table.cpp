#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/styles.h"

namespace lockstep::results {
namespace {

std::string factor_text(double value, const std::optional<double>& half_width) {
  if (!half_width) return fmt::format("{:.1f}", 100 * value);
  if (*half_width > 1) return fmt::format("{:.1f} ±>100", 100 * value);
  return fmt::format("{:.1f} ±{:.1f}", 100 * value, 100 * *half_width);
}

std::string straggler_text(const Run& run) {
  if (!run.breakdown || !run.breakdown->straggler) return "-";
  return fmt::format("rank {}", *run.breakdown->straggler);
}

std::string hidden_text(const Run& run) {
  // One rank has nobody to hide communication from.
  if (!run.breakdown || !run.breakdown->overlap()) return "-";
  // What surrounds the collectives counts as exposed, too, so that this may be a little below nothing.
  return fmt::format("{:.0f} %", 100 * *run.breakdown->overlap());
}

std::string factors_table(const std::vector<const Run*>& rows, TextForm form) {
  const bool factors = std::ranges::any_of(rows, [](const Run* run) { return run->factors.has_value(); });
  const bool straggler =
      std::ranges::any_of(rows, [](const Run* run) { return straggler_text(*run) != "-"; });
  TextTable table;
  table.add_column("ranks");
  table.add_column("strategy", TextTable::Align::kLeft);
  table.add_column("efficiency");
  if (factors) {
    for (const char* head : {"= machine", "x strategy", "x transfer", "x stragglers"}) table.add_column(head);
  }
  table.add_column("hidden");
  if (straggler) table.add_column("straggler", TextTable::Align::kLeft);
  for (const Run* run : rows) {
    std::vector<std::string> fields{fmt::format("{}", run->ranks), strategy_text(*run),
                                    run->efficiency ? fmt::format("{:.1f}", 100 * *run->efficiency) : "-"};
    if (factors && run->factors) {
      const EfficiencyFactors& of = *run->factors;
      fields.push_back(factor_text(of.machine, of.half_width.machine));
      fields.push_back(factor_text(of.strategy, of.half_width.strategy));
      fields.push_back(factor_text(of.transfer, of.half_width.transfer));
      fields.push_back(factor_text(of.stragglers, of.half_width.stragglers));
    } else if (factors) {
      fields.insert(fields.end(), 4, "-");
    }
    fields.push_back(hidden_text(*run));
    if (straggler) fields.push_back(straggler_text(*run));
    table.add_row(std::move(fields));
  }
  return table.text(form);
}

}  // namespace

std::string factors_tables(const RunRecord& record, TextForm form) {
  std::string text;
  for (RowTable& table : row_tables(record)) {
    std::erase_if(table.rows, [](const Run* run) { return !run->factors && hidden_text(*run) == "-"; });
    if (table.rows.empty()) continue;
    if (!text.empty()) text += '\n';
    text += heading("Efficiency and its factors: " + table.title + ", per cent", form) +
            (form == TextForm::kTerminal ? "\n" : "") + factors_table(table.rows, form);
  }
  if (text.empty()) return text;
  return text +
         remark("",
                "machine: shared memory, caches and power; strategy: its own copies and hooks; transfer: "
                "communication that was not hidden; stragglers: waiting for the slowest rank. hidden: the "
                "share of communication behind other work.",
                form);
}

}  // namespace lockstep::results
