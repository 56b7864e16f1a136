#include <algorithm>

#include <fmt/format.h>

#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/styles.h"

namespace lockstep::results {
namespace {

std::string limit_table(const std::vector<const Run*>& rows, TextForm form) {
  const int digits = rate_digits(rows);
  TextTable table;
  table.add_column("ranks");
  table.add_column("strategy", TextTable::Align::kLeft);
  for (const char* head : {"images/s per rank", "limit", "of the limit"}) table.add_column(head);
  for (const Run* run : rows) {
    table.add_row({fmt::format("{}", run->ranks), strategy_text(*run),
                   fmt::format("{:.{}f}", run->images_per_s / run->ranks, digits),
                   fmt::format("{:.{}f}", *run->limit_images_per_s, digits), percent_text(run->of_limit())});
  }
  return table.text(form);
}

std::string layers_table(const Run& run, TextForm form) {
  const bool limited =
      std::ranges::any_of(run.layers, [](const LayerTimes& layer) { return layer.of_limit().has_value(); });
  TextTable table;
  table.add_column("layer", TextTable::Align::kLeft);
  table.add_column("", TextTable::Align::kLeft);
  for (const char* head : {"forward", "backward", "GFLOP/s", "GB/s"}) table.add_column(head);
  if (limited) table.add_column("of the limit");
  for (const LayerTimes* layer : worst_first(run.layers)) {
    std::vector<std::string> fields{
        layer->name,
        layer->what,
        fmt::format("{:.3f}", 1e3 * layer->forward_s),
        fmt::format("{:.3f}", 1e3 * layer->backward_s),
        layer->multiply_adds > 0 ? fmt::format("{:.1f}", layer->gflop_per_s()) : "-",
        fmt::format("{:.1f}", layer->gb_per_s())};
    if (limited) fields.push_back(percent_text(layer->of_limit()));
    table.add_row(std::move(fields));
  }
  return table.text(form);
}

}  // namespace

std::string limit_tables(const RunRecord& record, TextForm form) {
  std::string text;
  for (RowTable& table : row_tables(record)) {
    std::erase_if(table.rows, [](const Run* run) { return !run->limit_images_per_s; });
    if (table.rows.empty()) continue;
    if (!text.empty()) text += '\n';
    text += heading("Limit of the processor: " + table.title, form) +
            (form == TextForm::kTerminal ? "\n" : "") + limit_table(table.rows, form);
  }
  if (text.empty()) return text;
  return text +
         remark("",
                "limit: images/s of one rank alone, if every primitive of its step took its best "
                "time and nothing else took any.",
                form);
}

std::string layers_tables(const RunRecord& record, TextForm form) {
  std::string text;
  for (const RowTable& table : row_tables(record)) {
    for (const Run* run : table.rows) {
      if (run->layers.empty()) continue;
      if (!text.empty()) text += '\n';
      const std::string row = fmt::format("{}, {}, {} {}", table.title, strategy_text(*run), run->ranks,
                                          run->ranks == 1 ? "rank" : "ranks");
      text += heading("Layers, worst first: " + row, form) + (form == TextForm::kTerminal ? "\n" : "") +
              layers_table(*run, form);
    }
  }
  if (text.empty()) return text;
  return text +
         remark(
             "",
             "Milliseconds on the first rank, medians over the steps of a run of its own; GFLOP/s and GB/s "
             "of both directions together. Communication that runs meanwhile is in them.",
             form);
}

}  // namespace lockstep::results
