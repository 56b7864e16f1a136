#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/doubt.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

/// A row of the table, and the control beside it (null for none).
struct ScalingRow {
  const Run* run;
  const Run* independent;
};

/// The baseline first, then each strategy by ascending ranks.
std::vector<ScalingRow> rows_of(const RunRecord& record, const ModelGroup& group) {
  std::vector<ScalingRow> rows;
  for (const Run* run : group.controls) {
    if (run->role() == Role::kBaseline) rows.push_back({run, nullptr});
  }
  for (const auto& runs : group_by_attributes(group.runs)) {
    for (const Run* run : runs)
      rows.push_back({run, run->role() == Role::kControl ? nullptr : independent_of(record, *run)});
  }
  return rows;
}

/// One line per baseline that the numbers are relative to.
std::vector<Remark> baseline_remarks(const RunRecord& record, const std::vector<ScalingRow>& rows,
                                     const std::vector<const Setting*>& varied, int digits) {
  std::vector<const Run*> baselines;
  for (const ScalingRow& row : rows) {
    const Run* baseline = baseline_of(record, *row.run);
    if (baseline != nullptr && std::ranges::find(baselines, baseline) == baselines.end())
      baselines.push_back(baseline);
  }
  std::vector<Remark> remarks;
  for (const Run* baseline : baselines) {
    const Run& run = *baseline;
    std::string line = counted(run.ranks, "rank");
    const std::string settings = settings_text(run, varied);
    line += run.role() == Role::kBaseline ? fmt::format(" without a strategy (no ddp{})", settings)
                                          : fmt::format(" with {}{}", run.strategy, settings);
    line += fmt::format(", {} {}", images_per_s_text(run, digits), run.rate_unit());
    if (run.again) {
      line +=
          fmt::format(", and {} after the last row", fixed_text(run.images_per_s * run.again->ratio, digits));
      if (drifted(run))
        line += fmt::format(" ({:+.0f} %: the machine drifted)", 100 * (run.again->ratio - 1));
    }
    if (run.threads_per_rank > 0)
      line += fmt::format("; {} per rank in every row", counted(run.threads_per_rank, "thread"));
    remarks.push_back({"Baseline: ", line});
  }
  if (remarks.empty()) {
    const bool single = record.baseline_strategy == kSingle;
    remarks.push_back({"", fmt::format("No baseline: {} was not measured.",
                                       single ? "one rank without a strategy" : record.baseline_strategy)});
  }
  return remarks;
}

Table scaling_table(const std::vector<ScalingRow>& rows, const std::vector<const Setting*>& varied,
                    int digits) {
  const auto any = [&](auto has) { return std::ranges::any_of(rows, has); };
  std::vector<const Run*> runs;
  // A column gets the run alone, and finds the control beside it here.
  std::map<const Run*, const Run*> control_of;
  for (const auto& [run, independent] : rows) {
    runs.push_back(run);
    control_of[run] = independent;
  }
  std::vector<RunColumn> columns{{"ranks", [](const Run& run) { return fmt::format("{}", run.ranks); }}};
  if (any([](const ScalingRow& row) { return row.run->hosts > 1; }))
    columns.push_back(
        {"hosts", [](const Run& run) { return run.hosts == 0 ? kNoValue : fmt::format("{}", run.hosts); }});
  columns.push_back({{"strategy", kText}, strategy_text});
  for (const Setting* setting : varied) {
    columns.push_back(
        {{setting->name + std::string(setting->prose.unit), kText}, [setting](const Run& run) -> Cell {
           if (run.role() == Role::kBaseline && setting->has(Setting::kOfCommunication)) return kNoValue;
           // The head has the unit.
           std::string text = setting->text(run);
           if (text.ends_with(setting->prose.unit))
             text.resize(text.size() - std::strlen(setting->prose.unit));
           return text;
         }});
    if (*setting->prose.unit != '\0') columns.back().column.short_head = setting->prose.unit + 1;
  }
  const auto rate = [digits](const Run& run) { return images_per_s_text(run, digits); };
  columns.push_back({rows.front().run->rate_unit(), rate});
  if (any([](const ScalingRow& row) { return row.run->rate_interval.has_value(); }))
    columns.push_back({"95 %", uncertainty_text});
  columns.push_back({"speed-up", speedup_with_interval});
  if (any([](const ScalingRow& row) { return row.run->stated_speedup.has_value(); }))
    columns.push_back({"stated", [](const Run& run) { return fixed_text(run.stated_speedup, 2); }});
  columns.push_back({"efficiency", efficiency_with_interval});
  columns.back().column.short_head = "eff.";
  if (any([](const ScalingRow& row) { return row.independent != nullptr; })) {
    const auto of_control = [&](auto text) {
      return [=](const Run& run) -> Cell {
        const Run* control = control_of.at(&run);
        return control == nullptr ? kNoValue : text(*control);
      };
    };
    columns.push_back({"independent", of_control(rate)});
    columns.back().column.short_head = "indep.";
    // A rule separates the control, which is another job.
    columns.back().column.ruled = true;
    columns.push_back(
        {"eff.", of_control([](const Run& run) { return marked(run, percent_text(run.efficiency)); })});
  }
  return run_table(runs, columns, {});
}

/// Explains the words that stand in place of an interval, and the columns of the control, as far as they
/// occur.
std::vector<Remark> scaling_remarks(const std::vector<ScalingRow>& rows) {
  std::vector<const Run*> runs;
  for (const ScalingRow& row : rows) runs.push_back(row.run);
  const std::string reasons = uncertainty_reasons(runs);
  const std::string unit = rows.front().run->rate_unit();
  std::vector<Remark> remarks;
  if (!reasons.empty()) remarks.push_back({"95 %: ", fmt::format("no interval of {}. {}.", unit, reasons)});
  const std::string launches = few_launches_text(runs);
  if (!launches.empty()) {
    remarks.push_back(
        {"few: ", fmt::format("{} of each launch: {}. The next may differ by more than these do; "
                              "--repeat 5 gives an interval.",
                              unit, launches)});
  }
  if (std::ranges::any_of(rows, [](const ScalingRow& row) { return row.independent != nullptr; })) {
    remarks.push_back(
        {"independent: ",
         fmt::format("as many ranks at the same time that do not communicate: {} and efficiency that "
                     "perfect scaling would give on this machine.",
                     unit)});
  }
  return remarks;
}

}  // namespace

Document scaling_tables(const RunRecord& record) {
  Document document;
  for (const ModelGroup& group : group_by_model(record)) {
    const std::vector<ScalingRow> rows = rows_of(record, group);
    if (rows.empty()) continue;
    // The strategy always has a column, because the baseline has none.
    const auto varied = varied_settings(group.runs);
    std::vector<const Run*> shown;
    for (const ScalingRow& row : rows) shown.push_back(row.run);
    const int digits = rate_digits(shown);
    document.add(
        Heading{fmt::format("Scaling: {} with {}, {}s per second of the whole job", group.model,
                            batch_text(*rows.front().run, /*per_rank=*/true), rows.front().run->unit)});
    for (const Remark& remark : baseline_remarks(record, rows, varied, digits)) document.add(remark);
    document.add(scaling_table(rows, varied, digits));
    for (const Remark& remark : scaling_remarks(rows)) document.add(remark);
  }
  return document;
}

}  // namespace lockstep::results
