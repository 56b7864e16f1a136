#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/groups.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/text.h"
#include "lockstep/results/tables/text_table.h"

namespace lockstep::results {
namespace {

/// A row of the table, and the control beside it (null where there is none).
struct ScalingRow {
  const Run* run;
  const Run* independent;
};

std::vector<ScalingRow> rows_of(const RunRecord& record, const ModelGroup& group) {
  std::vector<ScalingRow> rows;
  for (const Run* run : group.controls) {
    if (run->strategy == "single") rows.push_back({run, nullptr});
  }
  for (const auto& runs : group_by_attributes(group.runs)) {
    for (const Run* run : runs)
      rows.push_back({run, run->strategy == "independent" ? nullptr : independent_of(record, *run)});
  }
  return rows;
}

std::string plural(int count, const char* thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

/// What the numbers are relative to: one line per baseline.
std::string baseline_text(const std::vector<ScalingRow>& rows, const std::vector<const Attribute*>& varied,
                          int digits, TextForm form) {
  std::string text;
  for (const ScalingRow& row : rows) {
    const Run& run = *row.run;
    if (run.strategy != "single") continue;
    std::string line = fmt::format("{} without a strategy (no ddp", plural(run.ranks, "rank"));
    for (const Attribute* attribute : varied) {
      if (!attribute->of_communication) line += ", " + attribute->phrase(run);
    }
    line += fmt::format("), {:.{}f} images/s", run.images_per_s, digits);
    if (run.threads_per_rank > 0)
      line += fmt::format("; {} per rank in every row", plural(run.threads_per_rank, "thread"));
    text += remark("Baseline: ", line, form);
  }
  return text.empty() ? remark("", "No baseline: one rank without a strategy was not measured.", form) : text;
}

/// Which columns a table has, and how wide they may be.
struct Columns {
  bool hosts = false;
  bool interval = false;
  bool controls = false;
  /// Short heads, where the table would not fit otherwise.
  bool brief = false;
};

TextTable table_of(const std::vector<ScalingRow>& rows, const std::vector<const Attribute*>& varied,
                   int digits, const Columns& columns, TextForm form) {
  const bool markdown = form == TextForm::kMarkdown;
  TextTable table;
  table.add_column("ranks");
  if (columns.hosts) table.add_column("hosts");
  table.add_column("strategy", TextTable::Align::kLeft);
  for (const Attribute* attribute : varied) table.add_column(attribute->name, TextTable::Align::kLeft);
  table.add_column("images/s");
  if (columns.interval) table.add_column("95 %");
  table.add_column("speed-up");
  table.add_column(columns.brief ? "eff." : "efficiency");
  const std::string control = columns.brief ? "indep." : "independent";
  if (columns.controls) {
    table.add_column(markdown ? control : "| " + control);
    table.add_column("eff.");
  }
  for (const auto& [run, independent] : rows) {
    std::vector<std::string> fields{fmt::format("{}", run->ranks)};
    if (columns.hosts) fields.push_back(fmt::format("{}", run->hosts));
    fields.push_back(strategy_text(*run));
    for (const Attribute* attribute : varied) {
      const bool says_nothing = run->strategy == "single" && attribute->of_communication;
      fields.push_back(says_nothing ? "-" : attribute->text(*run));
    }
    fields.push_back(fmt::format("{:.{}f}", run->images_per_s, digits));
    if (columns.interval) fields.push_back(uncertainty_text(*run));
    fields.push_back(run->speedup ? fmt::format("{:.2f}", *run->speedup) : "-");
    fields.push_back(percent_text(run->efficiency));
    if (columns.controls) {
      const std::string rate =
          independent != nullptr ? fmt::format("{:.{}f}", independent->images_per_s, digits) : "-";
      fields.push_back(markdown ? rate : fmt::format("| {:>{}}", rate, control.size()));
      fields.push_back(independent != nullptr ? percent_text(independent->efficiency) : "-");
    }
    table.add_row(std::move(fields));
  }
  return table;
}

/// What the words in place of an interval mean, those that occur.
std::string missing_text(const std::vector<ScalingRow>& rows, TextForm form) {
  constexpr std::array<std::pair<const char*, const char*>, 4> kReasons{
      {{"short", "too few steps for an interval"},
       {"trend", "the step time drifts"},
       {"shift", "the step time changes its level"},
       {"unsettled", "warm-up was not over"}}};
  std::vector<std::string> found;
  for (const auto& [word, meaning] : kReasons) {
    if (std::ranges::any_of(
            rows, [&, word = word](const ScalingRow& row) { return uncertainty_text(*row.run) == word; }))
      found.push_back(fmt::format("{}: {}", word, meaning));
  }
  if (found.empty()) return "";
  return remark("95 %: ", fmt::format("no interval of images/s. {}.", fmt::join(found, "; ")), form);
}

std::string table_text(const std::vector<ScalingRow>& rows, const std::vector<const Attribute*>& varied,
                       int digits, TextForm form) {
  constexpr size_t kWidth = 100;
  Columns columns;
  columns.hosts = std::ranges::any_of(rows, [](const ScalingRow& row) { return row.run->hosts > 1; });
  columns.interval =
      std::ranges::any_of(rows, [](const ScalingRow& row) { return row.run->rate_interval.has_value(); });
  columns.controls =
      std::ranges::any_of(rows, [](const ScalingRow& row) { return row.independent != nullptr; });
  TextTable table = table_of(rows, varied, digits, columns, form);
  if (table.width() > kWidth) {
    columns.brief = true;
    table = table_of(rows, varied, digits, columns, form);
  }
  std::string text = table.text(form) + missing_text(rows, form);
  if (columns.controls) {
    text += remark("independent: ",
                   "as many ranks at the same time that do not communicate: images/s and efficiency that "
                   "perfect scaling would give on this machine.",
                   form);
  }
  return text;
}

}  // namespace

std::string scaling_tables(const RunRecord& record, TextForm form) {
  std::string text;
  for (const ModelGroup& group : group_by_model(record)) {
    const std::vector<ScalingRow> rows = rows_of(record, group);
    if (rows.empty()) continue;
    auto varied = varying(group.runs);
    // It has a column always, because the baseline has none.
    std::erase_if(varied, [](const Attribute* attribute) { return attribute == &attributes().front(); });
    std::vector<const Run*> shown;
    for (const ScalingRow& row : rows) shown.push_back(row.run);
    const int digits = rate_digits(shown);
    if (!text.empty()) text += '\n';
    text += heading(fmt::format("Scaling: {} with {}{}, images per second of the whole job", group.model,
                                batch_text(group), group.global_batch > 0 ? "" : " per rank"),
                    form);
    text += baseline_text(rows, varied, digits, form) + '\n' + table_text(rows, varied, digits, form);
  }
  return text;
}

}  // namespace lockstep::results
