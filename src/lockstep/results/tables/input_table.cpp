#include <fmt/format.h>

#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/styles.h"

namespace lockstep::results {
namespace {

/// "3 of 59 (2.14 ms)": how often, and how long each time.
std::string waits_text(int64_t waits, double seconds, const std::string& of) {
  if (waits == 0) return "never";
  return fmt::format("{}{} ({:.3g} ms)", waits, of, 1000 * seconds / static_cast<double>(waits));
}

std::string milliseconds(const std::optional<double>& seconds) {
  return seconds ? fmt::format("{:.3g}", 1000 * *seconds) : "-";
}

std::string input_table(const std::vector<const Run*>& rows, TextForm form) {
  TextTable table;
  table.add_column("ranks");
  table.add_column("strategy", TextTable::Align::kLeft);
  table.add_column("queue", TextTable::Align::kLeft);
  for (const char* name : {"depth", "empty", "full", "ms/batch", "images/s", "GB/s"}) table.add_column(name);
  for (const Run* run : rows) {
    for (const InputQueue& queue : run->input_queues) {
      const bool first = &queue == &run->input_queues.front();
      table.add_row({first ? fmt::format("{}", run->ranks) : "", first ? strategy_text(*run) : "", queue.name,
                     fmt::format("{:.1f} of {}", queue.depth, queue.capacity),
                     waits_text(queue.empty, queue.empty_s, fmt::format(" of {}", queue.batches)),
                     waits_text(queue.full, queue.full_s, ""), milliseconds(queue.producer_s),
                     fmt::format("{:.4g}", queue.images_per_s), fmt::format("{:.3g}", queue.gb_per_s)});
    }
  }
  return table.text(form);
}

}  // namespace

std::string input_tables(const RunRecord& record, TextForm form) {
  std::string text;
  for (RowTable& table : row_tables(record)) {
    std::erase_if(table.rows, [](const Run* run) { return run->input_queues.empty(); });
    if (table.rows.empty()) continue;
    if (!text.empty()) text += '\n';
    text += heading(fmt::format("Input {}: {}", table.rows.front()->input, table.title), form) +
            (form == TextForm::kTerminal ? "\n" : "") + input_table(table.rows, form);
  }
  if (text.empty()) return text;
  return text +
         remark(
             "",
             "depth: batches ready when one was wanted, mean. empty: how often none was, and the mean wait; "
             "of 'staged' that is the step's. full: how often a producer found no room. ms/batch: a "
             "producer's work. Over all steps, warm-up included.",
             form);
}

}  // namespace lockstep::results
