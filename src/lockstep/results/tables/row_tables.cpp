#include "lockstep/results/tables/row_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/units.h"
#include "lockstep/measure/interval.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/launches.h"

namespace lockstep::results {
namespace {

/// Whether two runs belong in one table: settings of communication count only if both communicate.
bool agree(const Run& a, const Run& b, const std::vector<const Setting*>& varied) {
  return std::ranges::all_of(varied, [&](const Setting* attribute) {
    if (attribute->has(Setting::kOfCommunication) && (!communicates(a) || !communicates(b))) return true;
    return attribute->text(a) == attribute->text(b);
  });
}

/// Order within a table: without a strategy, strategies, controls.
int place(const Run& run) {
  return run.role() == Role::kBaseline ? 0 : communicates(run) ? 1 : 2;
}

/// " ±0.07"; empty without an interval. `unit`: of the number that is written.
std::string half_width_text(const std::optional<Interval>& interval, double value, double unit, int digits) {
  if (!interval || !interval->missing.empty()) return "";
  const double half = 0.5 * (interval->high - interval->low);
  // The width of an interval wider than the value itself is meaningless.
  if (!(half <= value)) return " ±>100 %";
  return fmt::format(" ±{:.{}f}", half * unit, digits);
}

/// Splits the rows of one model and batch into tables; the sort within a table is stable by its key.
void add_group(const ModelGroup& group, std::string_view merged, std::vector<RowTable>& tables) {
  std::vector<const Run*> all = group.runs;
  all.insert(all.end(), group.controls.begin(), group.controls.end());
  std::vector<const Run*> leading;
  std::ranges::copy_if(all, std::back_inserter(leading), [](const Run* run) { return communicates(*run); });
  // Rows that communicate decide which tables there are; controls join every table that they fit.
  if (leading.empty()) leading = all;
  auto varied = varied_settings(leading);
  std::erase_if(varied, [&](const Setting* setting) { return setting->name == merged; });
  std::vector<const Run*> firsts;
  for (const Run* run : leading) {
    if (std::ranges::none_of(firsts, [&](const Run* first) { return agree(*first, *run, varied); }))
      firsts.push_back(run);
  }
  for (const Run* first : firsts) {
    RowTable table;
    table.title = fmt::format("{} with {}", group.model, batch_text(*first, /*per_rank=*/true));
    table.title += settings_text(*first, varied);
    std::ranges::copy_if(all, std::back_inserter(table.rows),
                         [&](const Run* run) { return agree(*first, *run, varied); });
    std::vector<std::string> strategies;
    for (const Run* run : table.rows) {
      if (std::ranges::find(strategies, run->strategy) == strategies.end())
        strategies.push_back(run->strategy);
    }
    std::ranges::stable_sort(table.rows, {}, [&](const Run* run) {
      return std::tuple(place(*run), std::ranges::find(strategies, run->strategy) - strategies.begin(),
                        run->ranks);
    });
    tables.push_back(std::move(table));
  }
}

/// Compared by text, so that all rows with tuned buckets are alike whatever was found for each.
bool same_attributes(const Run& a, const Run& b) {
  return std::ranges::all_of(
      attributes(), [&](const Setting& attribute) { return attribute.text(a) == attribute.text(b); });
}

}  // namespace

std::vector<RowTable> row_tables(const RunRecord& record, std::string_view merged) {
  std::vector<RowTable> tables;
  for (const ModelGroup& group : group_by_model(record)) add_group(group, merged, tables);
  return tables;
}

std::vector<const Setting*> varied_settings(const std::vector<const Run*>& runs) {
  std::vector<const Run*> communicating;
  std::ranges::copy_if(runs, std::back_inserter(communicating),
                       [](const Run* run) { return communicates(*run); });
  const std::vector<const Setting*> among_communicating = varying(communicating);
  std::vector<const Setting*> varied = varying(runs);
  std::erase_if(varied, [&](const Setting* setting) {
    if (setting->member == Setting::Member(&Setup::strategy)) return true;
    return setting->has(Setting::kOfCommunication) &&
           std::ranges::find(among_communicating, setting) == among_communicating.end();
  });
  return varied;
}

std::string settings_text(const Run& run, const std::vector<const Setting*>& varied) {
  std::string text;
  for (const Setting* setting : varied) {
    const bool concerned = !setting->has(Setting::kOfCommunication) || communicates(run);
    if (concerned && !setting->text(run).empty()) text += ", " + setting->phrase(run);
  }
  return text;
}

std::vector<RunColumn> ranks_and_strategy() {
  return {{"ranks", [](const Run& run) { return fmt::format("{}", run.ranks); }},
          {{"strategy", kText}, strategy_text}};
}

Table run_table(const std::vector<const Run*>& rows, const std::vector<RunColumn>& columns,
                const std::vector<RunColumn>& names) {
  Table table;
  std::vector<const RunColumn*> all;
  for (const RunColumn& name : names) all.push_back(&name);
  for (const RunColumn& column : columns) all.push_back(&column);
  for (const RunColumn* column : all) table.add_column(column->column);
  for (const Run* run : rows) {
    std::vector<Cell> cells;
    for (const RunColumn* column : all) cells.push_back(column->cell(*run));
    table.add_row(std::move(cells));
  }
  return table;
}

Document grouped_tables(const RunRecord& record, const std::function<bool(const Run&)>& has,
                        std::string_view heading,
                        const std::function<Table(const std::vector<const Run*>&)>& table,
                        const std::vector<Remark>& remarks) {
  Document document;
  for (RowTable& group : row_tables(record)) {
    std::erase_if(group.rows, [&](const Run* run) { return !has(*run); });
    if (group.rows.empty()) continue;
    document.add(Heading{fmt::format(fmt::runtime(heading), group.title, group.rows.front()->input,
                                     group.rows.front()->unit)});
    document.add(table(group.rows));
  }
  // Remarks explain a table, and stay away without one.
  if (document.empty()) return document;
  for (const Remark& remark : remarks) document.add(remark);
  return document;
}

std::string strategy_text(const Run& run) {
  const std::string name = run.role() == Role::kBaseline ? "no ddp" : run.strategy;
  return run.finished() ? name : fmt::format("{} ({})", name, kUnfinished);
}

std::string fixed_text(const std::optional<double>& value, int digits) {
  return value && std::isfinite(*value) ? fmt::format("{:.{}f}", *value, digits) : kNoValue;
}

std::string percent_text(const std::optional<double>& share, int digits) {
  return share && std::isfinite(*share) ? fmt::format("{:.{}f} %", 100 * *share, digits) : kNoValue;
}

std::string marked(const Run& run, std::string cell) {
  return run.doubt.empty() || cell == kNoValue ? cell : cell + " ?";
}

std::string images_per_s_text(const Run& run, int digits) {
  return run.images_per_s > 0 ? fixed_text(run.images_per_s, digits) : kNoValue;
}

std::string speedup_text(const Run& run) {
  return marked(run, fixed_text(run.speedup, 2));
}

std::string speedup_with_interval(const Run& run) {
  if (!run.speedup || !std::isfinite(*run.speedup)) return kNoValue;
  return marked(run, fixed_text(run.speedup, 2) + half_width_text(run.speedup_interval, *run.speedup, 1, 2));
}

std::string efficiency_with_interval(const Run& run) {
  if (!run.efficiency || !std::isfinite(*run.efficiency)) return kNoValue;
  const std::string half = half_width_text(run.efficiency_interval(), *run.efficiency, 100, 1);
  const std::string text = fixed_text(100 * *run.efficiency, 1) + half;
  return marked(run, half.ends_with('%') ? text : text + " %");
}

std::string uncertainty_text(const Run& run) {
  if (!run.rate_interval) return kNoValue;
  const Interval& interval = *run.rate_interval;
  if (interval.missing.starts_with("level shift")) return "shift";
  if (interval.missing.starts_with("not settled")) return "unsettled";
  if (interval.missing == measure::kFewLaunchesText) return "few";
  if (interval.missing == "trend" || interval.missing == kUnfinished) return interval.missing;
  if (!interval.missing.empty() || !(run.images_per_s > 0)) return "short";
  // Half the width in per cent: 100 * (high - low) / 2 / rate.
  const double half_percent = 50 * (interval.high - interval.low) / run.images_per_s;
  if (!(half_percent <= 100)) return "±>100 %";
  return fmt::format("±{:.{}f} %", half_percent, half_percent < 10 ? 1 : 0);
}

std::string uncertainty_reasons(const std::vector<const Run*>& rows) {
  constexpr std::array<std::pair<const char*, const char*>, 6> kReasons{
      {{"short", "too few independent steps; raise --max-time, or leave --steps out"},
       {"few", "fewer than 4 launches"},
       {"trend", "the step time drifts; let the machine settle, and raise --max-time"},
       {"shift", "the step time changes its level; see Step after step in the report"},
       {"unsettled", "warm-up was not over; raise --max-time, or give --warmup and --steps"},
       {kUnfinished, "the row ended before all of it was measured"}}};
  // A recording has no flags of lockstep bench to change.
  const bool recorded = std::ranges::any_of(rows, [](const Run* run) { return run->recorded.has_value(); });
  std::vector<std::string> found;
  for (const auto& [word, meaning] : kReasons) {
    if (std::ranges::none_of(rows, [word = word](const Run* run) { return uncertainty_text(*run) == word; }))
      continue;
    const std::string_view text = meaning;
    found.push_back(fmt::format("{}: {}{}", word, recorded ? text.substr(0, text.find(';')) : text,
                                recorded ? "; record more steps" : ""));
  }
  return fmt::format("{}", fmt::join(found, ". "));
}

std::string few_launches_text(const std::vector<const Run*>& rows) {
  const int digits = rate_digits(rows);
  std::vector<std::string> found;
  for (const Run* run : rows) {
    if (!run->rate_interval || run->rate_interval->missing != measure::kFewLaunchesText) continue;
    std::vector<std::string> rates;
    for (const double rate : launch_rates(*run)) rates.push_back(fmt::format("{:.{}f}", rate, digits));
    found.push_back(
        fmt::format("{} at {} {}", strategy_text(*run), counted(run->ranks, "rank"), fmt::join(rates, ", ")));
  }
  return fmt::format("{}", fmt::join(found, "; "));
}

int rate_digits(double least) {
  // One digit below 1000, two below 100, and below 1 three significant ones.
  if (least < 1) return 2 + static_cast<int>(std::ceil(-std::log10(least)));
  return least < 100 ? 2 : least < 1000 ? 1 : 0;
}

int rate_digits(const std::vector<const Run*>& rows) {
  double least = std::numeric_limits<double>::infinity();
  for (const Run* run : rows) {
    if (run->images_per_s > 0) least = std::min(least, run->images_per_s);
  }
  return rate_digits(least);
}

std::vector<const Setting*> varying(const std::vector<const Run*>& runs) {
  std::vector<const Setting*> found;
  for (const Setting& attribute : attributes()) {
    const bool varies = std::ranges::any_of(
        runs, [&](const Run* run) { return attribute.text(*run) != attribute.text(*runs.front()); });
    if (varies) found.push_back(&attribute);
  }
  return found;
}

std::string batch_text(const Run& run, bool per_rank) {
  if (!run.batch_is_known()) return "unknown batch size";
  if (run.global_batch > 0) return fmt::format("global batch size {}", run.global_batch);
  return fmt::format("batch size {}{}", run.batch_per_rank, per_rank ? " per rank" : "");
}

std::vector<ModelGroup> group_by_model(const RunRecord& record) {
  std::vector<ModelGroup> groups;
  for (const Run& run : record.runs) {
    auto group = std::ranges::find_if(groups, [&](const ModelGroup& known) {
      return known.model == run.model && known.global_batch == run.global_batch &&
             (run.global_batch > 0 || known.batch_per_rank == run.batch_per_rank);
    });
    if (group == groups.end())
      group = groups.insert(groups.end(), {run.model, run.batch_per_rank, run.global_batch, {}, {}});
    // Controls stay beside the group: they are shown with every table that they fit.
    (is_control(record, run) ? group->controls : group->runs).push_back(&run);
  }
  // Where only controls were measured, those that are no baseline are what was asked for.
  for (auto& [model, batch, global_batch, runs, controls] : groups) {
    if (!runs.empty()) continue;
    const auto asked = std::stable_partition(controls.begin(), controls.end(),
                                             [](const Run* run) { return run->role() == Role::kBaseline; });
    runs.assign(asked, controls.end());
    controls.erase(asked, controls.end());
  }
  return groups;
}

std::vector<std::vector<const Run*>> group_by_attributes(const std::vector<const Run*>& runs) {
  std::vector<std::vector<const Run*>> groups;
  for (const Run* run : runs) {
    auto group = std::ranges::find_if(
        groups, [&](const auto& known) { return same_attributes(*known.front(), *run); });
    if (group == groups.end()) group = groups.insert(groups.end(), std::vector<const Run*>());
    group->push_back(run);
  }
  // Stable: repeated numbers of ranks keep the order of the record.
  for (auto& group : groups) std::ranges::stable_sort(group, {}, [](const Run* run) { return run->ranks; });
  return groups;
}

}  // namespace lockstep::results
