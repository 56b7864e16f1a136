#include "lockstep/plots/page_tables.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/plots/curves.h"
#include "lockstep/plots/html_table.h"
#include "lockstep/plots/numbers.h"
#include "lockstep/plots/phase_looks.h"

namespace lockstep::plots {
namespace {

using results::Run;
using Kind = HtmlTable::Kind;

/// A column, how a run fills it, and how long its bar is.
struct Column {
  std::string head;
  std::function<std::string(const Run&)> text;
  std::function<std::optional<double>(const Run&)> share = {};
};

std::string table_of(const std::string& caption, const std::vector<LabelledRun>& runs,
                     const std::vector<Column>& columns) {
  if (runs.empty()) return "";
  HtmlTable table(caption);
  for (const LabelPart& part : runs.front().parts) table.add_column(part.head, Kind::kText);
  table.add_column("ranks");
  std::vector<const Column*> filled;
  for (const Column& column : columns) {
    // A column that no run fills says nothing.
    if (std::ranges::all_of(runs, [&](const LabelledRun& run) { return column.text(*run.run) == kMissing; }))
      continue;
    filled.push_back(&column);
    table.add_column(column.head);
  }
  for (const LabelledRun& run : runs) {
    std::vector<std::string> fields;
    for (const LabelPart& part : run.parts)
      fields.push_back(part.text.empty() ? std::string(kMissing) : part.text);
    fields.push_back(count_text(run.run->ranks));
    std::vector<std::optional<double>> shares(fields.size());
    for (const Column* column : filled) {
      fields.push_back(column->text(*run.run));
      shares.push_back(column->share ? column->share(*run.run) : std::nullopt);
    }
    table.add_row(std::move(fields), std::move(shares));
  }
  return table.markup();
}

std::string interval_text(const Run& run) {
  if (const auto interval = throughput_interval(run)) {
    return fmt::format("{} to {}", number_text(interval->first), number_text(interval->second));
  }
  if (run.step_interval_s && !run.step_interval_s->missing.empty()) return run.step_interval_s->missing;
  return std::string(kMissing);
}

std::string memory_text(const Run& run) {
  if (!run.resources || run.resources->peak_memory_bytes.empty()) return std::string(kMissing);
  const int64_t most = std::ranges::max(run.resources->peak_memory_bytes);
  return most > 0 ? format_bytes(most) : std::string(kMissing);
}

std::string loss_text(const Run& run) {
  if (run.loss_first == 0 && run.loss_last == 0) return std::string(kMissing);
  return fmt::format("{} → {}", number_text(run.loss_first), number_text(run.loss_last));
}

std::vector<LabelledRun> runs_that(const Sources& sources, bool (*has)(const Run&)) {
  std::vector<LabelledRun> runs = labelled_runs(sources);
  std::erase_if(runs, [&](const LabelledRun& run) { return !has(*run.run); });
  return runs;
}

std::string factor_text(double factor) {
  return std::isfinite(factor) ? fixed_text(factor, 3) : std::string(kMissing);
}

}  // namespace

std::string results_table(const Sources& sources) {
  const auto always = [](const Run&) { return true; };
  return table_of(
      "Rates and step times", runs_that(sources, always),
      {{"images/s",
        [](const Run& run) {
          return run.images_per_s == 0 ? std::string(kMissing) : number_text(run.images_per_s);
        }},
       {"95 % interval", interval_text},
       {"speed-up", [](const Run& run) { return number_text(run.speedup); }},
       {"efficiency", [](const Run& run) { return percent_text(run.efficiency); },
        [](const Run& run) { return run.efficiency; }},
       {"p50", [](const Run& run) { return time_text(run.step_s.p50); }},
       {"p75", [](const Run& run) { return time_text(run.step_s.p75); }},
       {"p95", [](const Run& run) { return time_text(run.step_s.p95); }},
       {"steps", [](const Run& run) { return count_text(static_cast<int64_t>(run.samples.size())); }},
       {"memory", memory_text},
       {"loss", loss_text}});
}

std::string phases_table(const Sources& sources) {
  const auto has = [](const Run& run) {
    return run.breakdown && std::isfinite(run.breakdown->mean.step_s) && run.breakdown->mean.step_s > 0;
  };
  std::vector<Column> columns{{"step", [](const Run& run) { return time_text(run.breakdown->mean.step_s); }}};
  for (const PhaseLook& look : phase_looks()) {
    columns.push_back({std::string(look.name),
                       [&look](const Run& run) { return time_text(run.breakdown->mean.*look.seconds); },
                       [&look](const Run& run) -> std::optional<double> {
                         return run.breakdown->mean.*look.seconds / run.breakdown->mean.step_s;
                       }});
  }
  columns.push_back({"hidden", [](const Run& run) {
                       const auto overlap = run.breakdown->overlap();
                       return overlap ? percent_text(*overlap) : std::string(kMissing);
                     }});
  columns.push_back({"waited for", [](const Run& run) {
                       return run.breakdown->straggler ? fmt::format("rank {}", *run.breakdown->straggler)
                                                       : std::string(kMissing);
                     }});
  return table_of("Phases of a mean step, and how much of the communication was hidden",
                  runs_that(sources, has), columns);
}

std::string factors_table(const Sources& sources) {
  const auto has = [](const Run& run) { return run.factors.has_value(); };
  return table_of("What the efficiency is made of: the factors multiply to it", runs_that(sources, has),
                  {{"machine", [](const Run& run) { return factor_text(run.factors->machine); }},
                   {"strategy", [](const Run& run) { return factor_text(run.factors->strategy); }},
                   {"transfer", [](const Run& run) { return factor_text(run.factors->transfer); }},
                   {"stragglers", [](const Run& run) { return factor_text(run.factors->stragglers); }},
                   {"efficiency", [](const Run& run) { return percent_text(run.efficiency); },
                    [](const Run& run) { return run.efficiency; }}});
}

std::string published_table(const PublishedTable& table) {
  HtmlTable html(table.name);
  const bool computed =
      std::ranges::any_of(table.rows, [](const PublishedRow& row) { return row.speedup.has_value(); });
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const bool text = std::ranges::any_of(table.rows, [&](const PublishedRow& row) {
      return row.fields[i].find_first_not_of("0123456789.+-eE") != std::string::npos;
    });
    std::string head = table.columns[i];
    std::ranges::replace(head, '_', ' ');
    html.add_column(head, text ? Kind::kText : Kind::kNumber);
  }
  if (computed) html.add_column("speed-up, computed");
  if (table.leaves_out_time) html.add_column("with synchronisation");
  for (const PublishedRow& row : table.rows) {
    std::vector<std::string> fields = row.fields;
    const auto speedup_text = [](const std::optional<double>& speedup) {
      return speedup ? fixed_text(*speedup, 2) : std::string(kMissing);
    };
    if (computed) fields.push_back(speedup_text(row.speedup));
    if (table.leaves_out_time) fields.push_back(speedup_text(row.honest_speedup));
    html.add_row(std::move(fields));
  }
  return html.markup();
}

}  // namespace lockstep::plots
