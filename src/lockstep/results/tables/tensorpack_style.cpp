#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/results/tables/render.h"
#include "lockstep/results/tables/row_tables.h"

namespace lockstep::results {
namespace {

/// Ordered from the nearest to the device to the farthest, as tensorpack's GPU/CPU/Python.
constexpr std::array<std::string_view, 5> kInputs{"device", "host", "queue", "dataset", "zmq"};

/// Texts of the rows, each once, in their order.
template <typename Text>
std::vector<std::string> occurring(const std::vector<const Run*>& rows, Text text) {
  std::vector<std::string> found;
  for (const Run* run : rows) {
    if (std::ranges::find(found, text(*run)) == found.end()) found.push_back(text(*run));
  }
  return found;
}

std::vector<std::string> inputs_of(const std::vector<const Run*>& rows) {
  std::vector<std::string> inputs = occurring(rows, [](const Run& run) { return run.input; });
  std::ranges::stable_sort(inputs, {}, [](const std::string& input) {
    return std::ranges::find(kInputs, input) - kInputs.begin();
  });
  return inputs;
}

/// Rates by input, "228/228/219"; "-" where all of them are missing.
std::string rates_text(const RowTable& table, int ranks, const std::string& strategy,
                       const std::vector<std::string>& inputs, int digits) {
  std::vector<std::string> rates;
  bool any = false;
  for (const std::string& input : inputs) {
    const auto run = std::ranges::find_if(table.rows, [&](const Run* row) {
      return row->ranks == ranks && strategy_text(*row) == strategy && row->input == input;
    });
    const bool known = run != table.rows.end();
    any = any || known;
    rates.push_back(known ? fmt::format("{:.{}f}", (*run)->images_per_s, digits) : kNoValue);
  }
  return any ? fmt::format("{}", fmt::join(rates, "/")) : kNoValue;
}

}  // namespace

Document tensorpack_style(const RunRecord& record, const RenderOptions&) {
  Document document;
  for (const RowTable& rows : row_tables(record, "input")) {
    const int digits = rate_digits(rows.rows);
    const std::vector<std::string> inputs = inputs_of(rows.rows);
    const std::vector<std::string> strategies = occurring(rows.rows, strategy_text);
    std::set<int> all_ranks;
    for (const Run* run : rows.rows) all_ranks.insert(run->ranks);
    Table table;
    table.add_column(rows.rows.front()->device == "cpu" ? "ranks" : "#GPU");
    for (const std::string& strategy : strategies) table.add_column(strategy);
    for (const int ranks : all_ranks) {
      std::vector<Cell> cells{fmt::format("{}", ranks)};
      for (const std::string& strategy : strategies)
        cells.push_back(rates_text(rows, ranks, strategy, inputs, digits));
      table.add_row(std::move(cells));
    }
    document.add(
        Heading{fmt::format("{}: images/s of the whole job (input {})", rows.title, fmt::join(inputs, "/"))});
    document.add(std::move(table));
  }
  return document;
}

}  // namespace lockstep::results
