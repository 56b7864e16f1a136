#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

/// "3 of 59 (2.14 ms)": how often, and the mean wait.
std::string waits_text(int64_t waits, double seconds, const std::string& of) {
  if (waits == 0) return "never";
  return fmt::format("{}{} ({} ms)", waits, of,
                     format_number(1000 * seconds / static_cast<double>(waits), 3));
}

/// A row for each queue; the first one of a run names the run.
Table input_table(const std::vector<const Run*>& rows) {
  Table table{.columns = {"ranks",
                          {"strategy", kText},
                          {"queue", kText},
                          "depth",
                          "empty",
                          "full",
                          "ms/batch",
                          "images/s",
                          "GB/s"}};
  for (const Run* run : rows) {
    for (const InputQueue& queue : run->input_queues) {
      // Later queues of a run leave the name of the run empty, so that runs stand apart.
      const bool first = &queue == &run->input_queues.front();
      table.add_row({first ? fmt::format("{}", run->ranks) : "", first ? strategy_text(*run) : "", queue.name,
                     fmt::format("{:.1f} of {}", queue.depth, queue.capacity),
                     waits_text(queue.empty, queue.empty_s, fmt::format(" of {}", queue.batches)),
                     waits_text(queue.full, queue.full_s, ""),
                     queue.producer_s ? format_number(1000 * *queue.producer_s, 3) : kNoValue,
                     format_number(queue.images_per_s, 4), format_number(queue.gb_per_s, 3)});
    }
  }
  return table;
}

}  // namespace

Document input_tables(const RunRecord& record) {
  return grouped_tables(
      record, [](const Run& run) { return !run.input_queues.empty(); }, "Input {1}: {0}", input_table,
      {{"",
        "depth: batches ready when one was wanted, mean. empty: how often none was, and the mean wait; of "
        "'staged' that is the step's. full: how often a producer found no room. ms/batch: a producer's work. "
        "Over all steps, warm-up included."}});
}

}  // namespace lockstep::results
