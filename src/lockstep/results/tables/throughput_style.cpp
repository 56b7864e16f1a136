#include <fmt/format.h>

#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/styles.h"

namespace lockstep::results {
namespace {

/// Images per second of a part of the step that takes `part_s`.
std::string rate_text(const Run& run, double part_s, int digits) {
  if (!(part_s > 0)) return "-";
  return fmt::format("{:.{}f}", run.ranks * run.images_per_rank_step() / part_s, digits);
}

}  // namespace

std::string throughput_style(const RunRecord& record, const RenderOptions& options) {
  std::string text;
  bool lacking = false;
  bool any = false;
  for (const RowTable& rows : row_tables(record)) {
    const int digits = rate_digits(rows.rows);
    TextTable table;
    table.add_column("ranks");
    table.add_column("strategy", TextTable::Align::kLeft);
    for (const char* head : {"forward", "backward", "overall", "speed-up"}) table.add_column(head);
    for (const Run* run : rows.rows) {
      std::vector<std::string> fields{fmt::format("{}", run->ranks), strategy_text(*run)};
      if (run->breakdown) {
        const PhaseTimes& mean = run->breakdown->mean;
        fields.push_back(rate_text(*run, mean.forward_s, digits));
        fields.push_back(rate_text(*run, mean.backward_s + mean.exposed_s() + mean.optimizer_s, digits));
        any = true;
      } else {
        fields.insert(fields.end(), 2, "-");
        lacking = true;
      }
      fields.push_back(fmt::format("{:.{}f}", run->images_per_s, digits));
      fields.push_back(run->speedup ? fmt::format("{:.2f}", *run->speedup) : "-");
      table.add_row(std::move(fields));
    }
    if (!text.empty()) text += '\n';
    text += heading("Throughput: " + rows.title + ", images per second of the whole job", options.form()) +
            (options.markdown ? "" : "\n") + table.text(options.form());
  }
  if (any) {
    text +=
        '\n' +
        remark("",
               "forward and backward are from the breakdown, a run of its own with real synchronisation; "
               "backward is from the loss to the end of the update, communication and optimizer included. "
               "overall is the throughput run, and the speed-up is its.",
               options.form());
  }
  if (lacking) text += (any ? "" : "\n") + remark("-: ", kPhasesAdvice, options.form());
  return text;
}

}  // namespace lockstep::results
