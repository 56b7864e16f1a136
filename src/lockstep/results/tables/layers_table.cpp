#include <algorithm>

#include <fmt/format.h>

#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

/// One rank against the limit of one rank: both are images/s per rank.
Table limit_table(const std::vector<const Run*>& rows) {
  const int digits = rate_digits(rows);
  return run_table(rows,
                   {{"images/s per rank",
                     [=](const Run& run) { return fixed_text(run.images_per_s / run.ranks, digits); }},
                    {"limit", [=](const Run& run) { return fixed_text(run.limit_images_per_s, digits); }},
                    {"of the limit", [](const Run& run) { return percent_text(run.of_limit()); }}});
}

/// By the share of the limit, layers without one last; without limits those that multiply by their GFLOP/s,
/// then the others by their GB/s.
std::vector<const LayerTimes*> worst_first(const std::vector<LayerTimes>& layers, bool limited) {
  std::vector<const LayerTimes*> sorted;
  for (const LayerTimes& layer : layers) sorted.push_back(&layer);
  std::ranges::stable_sort(sorted, {}, [limited](const LayerTimes* layer) {
    if (limited) return std::pair(!layer->of_limit(), layer->of_limit().value_or(0));
    const bool multiplies = layer->multiply_adds > 0;
    return std::pair(!multiplies, multiplies ? layer->gflop_per_s() : layer->gb_per_s());
  });
  return sorted;
}

/// Milliseconds and rates of every layer; a share of the limit where that was measured.
Table layers_table(const Run& run) {
  const bool limited =
      std::ranges::any_of(run.layers, [](const LayerTimes& layer) { return layer.of_limit().has_value(); });
  Table table{.columns = {{"layer", kText}, {"", kText}, "forward", "backward", "GFLOP/s", "GB/s"}};
  if (limited) table.add_column("of the limit");
  for (const LayerTimes* layer : worst_first(run.layers, limited)) {
    std::vector<Cell> cells{layer->name,
                            layer->what,
                            fmt::format("{:.3f}", 1e3 * layer->forward_s),
                            fmt::format("{:.3f}", 1e3 * layer->backward_s),
                            layer->multiply_adds > 0 ? fmt::format("{:.1f}", layer->gflop_per_s()) : kNoValue,
                            fmt::format("{:.1f}", layer->gb_per_s())};
    if (limited) cells.push_back(percent_text(layer->of_limit()));
    table.add_row(std::move(cells));
  }
  return table;
}

}  // namespace

Document limit_tables(const RunRecord& record) {
  return grouped_tables(
      record, [](const Run& run) { return run.limit_images_per_s.has_value(); }, "Limit of the processor: {}",
      limit_table,
      {{"",
        "limit: images/s of one rank alone, if every primitive of its step took its best time and nothing "
        "else took any."}});
}

Document layers_tables(const RunRecord& record) {
  Document document;
  for (const RowTable& rows : row_tables(record)) {
    for (const Run* run : rows.rows) {
      if (run->layers.empty()) continue;
      document.add(Heading{fmt::format("Layers, worst first: {}, {}, {}", rows.title, strategy_text(*run),
                                       counted(run->ranks, "rank"))});
      document.add(layers_table(*run));
    }
  }
  if (!document.empty()) {
    document.add(Remark{"",
                        "Milliseconds on the first rank, medians over the steps of a run of its own; GFLOP/s "
                        "and GB/s of both "
                        "directions together. Communication that runs meanwhile is in them."});
  }
  return document;
}

}  // namespace lockstep::results
