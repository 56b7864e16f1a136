#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "lockstep/results/baseline.h"
#include "lockstep/results/groups.h"
#include "lockstep/results/text.h"
#include "lockstep/results/text_table.h"

namespace lockstep::results {
namespace {

/// A row of the table, and the control beside it (null where there is none).
struct ScalingRow {
  const Run* run;
  const Run* independent;
};

std::string strategy_text(const Run& run) {
  return run.strategy == "single" ? "no ddp" : run.strategy;
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f} %", 100 * *share) : "-";
}

/// Digits after the point that leave three or more of the smallest rate.
int rate_digits(const std::vector<ScalingRow>& rows) {
  double least = std::numeric_limits<double>::infinity();
  for (const ScalingRow& row : rows) least = std::min(least, row.run->images_per_s);
  return least < 100 ? 2 : least < 1000 ? 1 : 0;
}

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
                          int digits) {
  std::string text;
  for (const ScalingRow& row : rows) {
    const Run& run = *row.run;
    if (run.strategy != "single") continue;
    text += fmt::format("Baseline: {} without a strategy (no ddp", plural(run.ranks, "rank"));
    for (const Attribute* attribute : varied) {
      // One rank alone has no backend and no buckets to tell it from another.
      const std::string name = attribute->name;
      if (name != "strategy" && name != "backend" && name != "bucket") text += ", " + attribute->phrase(run);
    }
    text += fmt::format("), {:.{}f} images/s", run.images_per_s, digits);
    if (run.threads_per_rank > 0)
      text += fmt::format("; {} per rank in every row", plural(run.threads_per_rank, "thread"));
    text += '\n';
  }
  return text.empty() ? "No baseline: one rank without a strategy was not measured.\n" : text;
}

std::string table_of(const std::vector<ScalingRow>& rows, const std::vector<const Attribute*>& varied,
                     int digits) {
  const bool several_hosts =
      std::ranges::any_of(rows, [](const ScalingRow& row) { return row.run->hosts > 1; });
  const bool controls =
      std::ranges::any_of(rows, [](const ScalingRow& row) { return row.independent != nullptr; });
  TextTable table;
  table.add_column("ranks");
  if (several_hosts) table.add_column("hosts");
  table.add_column("strategy", TextTable::Align::kLeft);
  for (const Attribute* attribute : varied) table.add_column(attribute->name, TextTable::Align::kLeft);
  for (const char* head : {"images/s", "speed-up", "efficiency"}) table.add_column(head);
  if (controls) {
    for (const char* head : {"| independent", "eff."}) table.add_column(head);
  }
  for (const auto& [run, independent] : rows) {
    std::vector<std::string> fields{fmt::format("{}", run->ranks)};
    if (several_hosts) fields.push_back(fmt::format("{}", run->hosts));
    fields.push_back(strategy_text(*run));
    for (const Attribute* attribute : varied) {
      const std::string name = attribute->name;
      const bool says_nothing = run->strategy == "single" && (name == "backend" || name == "bucket");
      fields.push_back(says_nothing ? "-" : attribute->text(*run));
    }
    fields.push_back(fmt::format("{:.{}f}", run->images_per_s, digits));
    fields.push_back(run->speedup ? fmt::format("{:.2f}", *run->speedup) : "-");
    fields.push_back(percent(run->efficiency));
    if (controls) {
      const std::string rate =
          independent != nullptr ? fmt::format("{:.{}f}", independent->images_per_s, digits) : "-";
      fields.push_back(fmt::format("| {:>11}", rate));
      fields.push_back(independent != nullptr ? percent(independent->efficiency) : "-");
    }
    table.add_row(std::move(fields));
  }
  std::string text = table.text();
  if (controls) {
    text +=
        "independent: as many ranks at the same time that do not communicate: images/s and efficiency that\n"
        "             perfect scaling would give on this machine.\n";
  }
  return text;
}

}  // namespace

std::string scaling_tables(const RunRecord& record) {
  std::string text;
  for (const ModelGroup& group : group_by_model(record)) {
    const std::vector<ScalingRow> rows = rows_of(record, group);
    if (rows.empty()) continue;
    auto varied = varying(group.runs);
    // It has a column always, because the baseline has none.
    std::erase_if(varied, [](const Attribute* attribute) { return attribute == &attributes().front(); });
    const int digits = rate_digits(rows);
    if (!text.empty()) text += '\n';
    text += fmt::format("Scaling: {} with {}{}, images per second of the whole job\n", group.model,
                        batch_text(group), group.global_batch > 0 ? "" : " per rank");
    text += baseline_text(rows, varied, digits) + '\n' + table_of(rows, varied, digits);
  }
  return text;
}

}  // namespace lockstep::results
