#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/plots/curves.h"
#include "lockstep/plots/page.h"
#include "lockstep/plots/text.h"
#include "lockstep/results/tables/notices.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::plots {
namespace {

using results::Cell;
using results::Document;
using results::Run;
using results::RunColumn;
using results::Table;

/// Fewer rows may be alike by chance.
constexpr size_t kFewestRows = 3;

/// One column with the labels of the runs, and one with their ranks: a narrow window shows these and
/// the first number without scrolling.
std::vector<RunColumn> label_columns(const std::vector<LabelledRun>& runs) {
  std::map<const Run*, std::string> labels;
  for (const LabelledRun& run : runs) labels[run.run] = run.label;
  return {{{"run", results::kText}, [labels](const Run& run) { return labels.at(&run); }},
          {"ranks", [](const Run& run) { return count_text(run.ranks); }}};
}

constexpr size_t kLabelColumns = 2;

/// Drops columns of numbers that no row fills, or that are the same in all of several rows. Returns the
/// latter in words: "steps 20, memory 1.2 GiB".
std::string drop_constant_columns(Table& table) {
  std::vector<std::string> dropped;
  for (size_t i = table.columns.size(); i-- > kLabelColumns;) {
    const std::string text = table.rows.front()[i].text;
    const bool empty = text == results::kNoValue || text == kMissing;
    if (!empty && table.rows.size() < kFewestRows) continue;
    if (!std::ranges::all_of(table.rows, [&](const auto& row) { return row[i].text == text; })) continue;
    if (!empty) dropped.insert(dropped.begin(), fmt::format("{} {}", table.columns[i].head, text));
    table.columns.erase(table.columns.begin() + i);
    for (std::vector<Cell>& row : table.rows) row.erase(row.begin() + i);
  }
  return fmt::format("{}", fmt::join(dropped, ", "));
}

/// A heading and a table of the runs of all sources that satisfy `has`; empty where there is none.
Document runs_table(
    const Sources& sources, const std::string& heading, bool (*has)(const Run&),
    const std::function<Table(const std::vector<const Run*>&, const std::vector<RunColumn>&)>& table_of,
    const std::vector<results::Remark>& remarks = {}) {
  std::vector<LabelledRun> labelled = labelled_runs(sources);
  std::erase_if(labelled, [&](const LabelledRun& run) { return !has(*run.run); });
  if (labelled.empty()) return {};
  std::vector<const Run*> runs;
  for (const LabelledRun& run : labelled) runs.push_back(run.run);
  Table table = table_of(runs, label_columns(labelled));
  const std::string constant = drop_constant_columns(table);
  Document document = results::Heading{heading};
  document.add(std::move(table));
  if (!constant.empty()) document.add(results::Remark{"The same in every row: ", constant + "."});
  for (const results::Remark& remark : remarks) document.add(remark);
  return document;
}

/// First and last loss. Both are 0 in files that do not have them.
std::string loss_text(const Run& run) {
  if (run.recorded || (run.loss_first == 0 && run.loss_last == 0)) return std::string(kMissing);
  return fmt::format("{} → {}", number_text(run.loss_first), number_text(run.loss_last));
}

}  // namespace

Document results_table(const Sources& sources, const std::string& heading) {
  // The same columns for every page; columns that no run fills are dropped.
  const std::vector<RunColumn> columns{
      {results::unit_of(sources) + "s/s",
       [](const Run& run) {
         return run.images_per_s == 0 ? std::string(kMissing) : number_text(run.images_per_s);
       }},
      {"95 %", results::uncertainty_text},
      {"speed-up", results::speedup_with_interval},
      {"stated", [](const Run& run) { return results::fixed_text(run.stated_speedup, 2); }},
      {"efficiency",
       [](const Run& run) { return Cell(results::efficiency_with_interval(run), run.efficiency); }},
      {"p50", [](const Run& run) { return time_text(run.step_s.p50); }},
      {"p75", [](const Run& run) { return time_text(run.step_s.p75); }},
      {"p95", [](const Run& run) { return time_text(run.step_s.p95); }},
      {"steps", [](const Run& run) { return count_text(static_cast<int64_t>(run.samples.size())); }},
      {"memory",
       [](const Run& run) {
         const int64_t peak = results::peak_memory_bytes(run);
         return peak > 0 ? format_bytes(peak) : std::string(kMissing);
       }},
      {"loss", loss_text}};
  std::vector<const Run*> all;
  for (const NamedRecord& named : sources.records) {
    for (const Run& run : named.record.runs) all.push_back(&run);
  }
  std::vector<results::Remark> remarks;
  if (const std::string reasons = results::uncertainty_reasons(all); !reasons.empty()) {
    remarks.push_back({"95 %: ", fmt::format("no interval where there is a word. {}.", reasons)});
  }
  return runs_table(
      sources, heading, [](const Run&) { return true; },
      [&](const std::vector<const Run*>& runs, const std::vector<RunColumn>& names) {
        return results::run_table(runs, columns, names);
      },
      remarks);
}

Document phases_tables(const Sources& sources) {
  const auto has = [](const Run& run) { return run.breakdown && positive(run.breakdown->mean.step_s); };
  const bool recorded = std::ranges::all_of(sources.records, [](const NamedRecord& named) {
    return named.record.source == results::kRecordedSource;
  });
  // Publications do not measure phases as lockstep does.
  const auto remarks = results::all_published(sources.records) ? std::vector<results::Remark>()
                                                               : results::phases_remarks(recorded);
  return runs_table(sources, "Phases of a mean step, milliseconds", has, results::phases_table, remarks);
}

Document factors_tables(const Sources& sources) {
  return runs_table(sources, "Efficiency and its factors, per cent", results::has_factors,
                    results::factors_table, results::factors_remarks());
}

Document published_table(const NamedRecord& published) {
  const Sources alone{{published}, {}};
  Document document = results_table(alone, published.name);
  document.append(phases_tables(alone));
  for (const results::Warning& warning : published.record.warnings) {
    document.add(results::Remark{"", warning.text});
  }
  return document;
}

std::string circumstances(const NamedRecord& named) {
  constexpr size_t kMostMachines = 4;
  constexpr size_t kMostCharacters = 2000;
  std::vector<results::Fact> facts{{"File", named.name}};
  if (!named.record.lockstep_version.empty())
    facts.push_back({"lockstep version", named.record.lockstep_version});
  for (results::Fact& fact : results::facts_of(named.record, kMostMachines)) facts.push_back(std::move(fact));
  std::string text;
  for (const results::Fact& fact : facts) {
    text += fmt::format("<dt>{}</dt><dd>{}{}</dd>\n", escape(fact.name),
                        escape(clip(fact.value, kMostCharacters)),
                        fact.lines.empty() ? "" : to_html(results::Preformatted{fact.lines}));
  }
  return "<dl>\n" + text + "</dl>\n";
}

}  // namespace lockstep::plots
