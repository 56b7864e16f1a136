#include <algorithm>

#include <fmt/format.h>

#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/styles.h"

namespace lockstep::results {
namespace {

/// "negotiation" and "0.375 ms" for negotiation_s.
std::pair<std::string, std::string> words_and_value(const OwnMeasure& measure) {
  std::string words = measure.name;
  const bool seconds = words.ends_with("_s");
  if (seconds) words.resize(words.size() - 2);
  std::ranges::replace(words, '_', ' ');
  if (seconds) return {words, fmt::format("{:.3f} ms", 1000 * measure.value)};
  const bool whole = measure.over == "in all" || measure.over == "most";
  return {words, whole ? fmt::format("{:.0f}", measure.value) : fmt::format("{:.2f}", measure.value)};
}

std::string measures_table(const std::vector<const Run*>& rows, TextForm form) {
  TextTable table;
  table.add_column("ranks");
  table.add_column("strategy", TextTable::Align::kLeft);
  table.add_column("measured", TextTable::Align::kLeft);
  table.add_column("value");
  table.add_column("", TextTable::Align::kLeft);
  for (const Run* run : rows) {
    for (const OwnMeasure& measure : run->own_measures) {
      const bool first = &measure == &run->own_measures.front();
      const auto [words, value] = words_and_value(measure);
      table.add_row({first ? fmt::format("{}", run->ranks) : "", first ? strategy_text(*run) : "", words,
                     value, measure.over});
    }
  }
  return table.text(form);
}

}  // namespace

std::string measures_tables(const RunRecord& record, TextForm form) {
  std::string text;
  for (RowTable& table : row_tables(record)) {
    std::erase_if(table.rows, [](const Run* run) { return run->own_measures.empty(); });
    if (table.rows.empty()) continue;
    if (!text.empty()) text += '\n';
    text += heading("Measured by the strategies themselves: " + table.title, form) +
            (form == TextForm::kTerminal ? "\n" : "") + measures_table(table.rows, form);
  }
  if (text.empty()) return text;
  return text + remark("", "Over all steps, warm-up included; per step: mean over ranks and steps.", form);
}

}  // namespace lockstep::results
