#include "lockstep/results/tables/row_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/units.h"
#include "lockstep/measure/interval.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/launches.h"
#include "lockstep/results/tables/tables.h"

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

struct Percentile {
  int p;
  std::optional<double> StepPercentiles::*value;
};

constexpr std::array<Percentile, 4> kPercentiles{{{50, &StepPercentiles::p50},
                                                  {75, &StepPercentiles::p75},
                                                  {90, &StepPercentiles::p90},
                                                  {95, &StepPercentiles::p95}}};

/// Digits after the point for a whole table: as PyTorch prints (milliseconds, whole examples) as long as that
/// leaves two digits of the smallest number to compare by.
struct Digits {
  int seconds = 3;
  int examples = 0;
};

/// Digits for the smallest time and the smallest rate of the table, since a column has one format.
Digits digits_for(const std::vector<const Run*>& rows) {
  double least_s = std::numeric_limits<double>::infinity();
  double least_examples = std::numeric_limits<double>::infinity();
  for (const Run* run : rows) {
    if (!run->step_s.p50 || !(*run->step_s.p50 > 0)) continue;
    least_s = std::min(least_s, *run->step_s.p50);
    least_examples = std::min(least_examples, run->images_per_rank_step() / *run->step_s.p50);
  }
  Digits digits;
  for (double limit_s = 0.05; digits.seconds < 6 && least_s < limit_s; limit_s /= 10) ++digits.seconds;
  for (double limit = 50; digits.examples < 2 && least_examples < limit; limit /= 10) ++digits.examples;
  return digits;
}

/// "0.103s".
std::string seconds_text(const std::optional<double>& step_s, const Digits& digits) {
  return step_s ? fmt::format("{:.{}f}s", *step_s, digits.seconds) : kNoValue;
}

/// Examples per second of one rank; cut off, not rounded, where whole, as PyTorch does.
std::string examples_text(const Run& run, const std::optional<double>& step_s, const Digits& digits) {
  if (!step_s || !(*step_s > 0)) return kNoValue;
  const double examples = run.images_per_rank_step() / *step_s;
  return fmt::format("{:.{}f}/s", digits.examples == 0 ? std::trunc(examples) : examples, digits.examples);
}

/// "1M/2G": machines and devices per machine, as PyTorch's benchmark names a row.
std::string label_of(const Run& run, const char* unit) {
  if (run.role() == Role::kBaseline) return "no ddp";
  if (run.hosts == 0) return fmt::format("?M/{}{}", run.ranks, unit);
  return fmt::format("{}M/{}{}", run.hosts, (run.ranks + run.hosts - 1) / run.hosts, unit);
}

/// The layout of PyTorch's benchmark, which repeats the name of a percentile in every row.
std::string pytorch_text(const std::vector<const Run*>& rows) {
  const bool gpu = rows.front()->device != "cpu";
  const Digits digits = digits_for(rows);
  size_t seconds_width = 8, examples_width = 10;
  for (const Run* run : rows) {
    for (const auto& [p, value] : kPercentiles) {
      const std::optional<double>& step_s = run->step_s.*value;
      seconds_width = std::max(seconds_width, seconds_text(step_s, digits).size() + 2);
      examples_width = std::max(examples_width, examples_text(*run, step_s, digits).size() + 2);
    }
  }
  std::string text, head;
  for (const Run* run : rows) {
    std::string line =
        fmt::format("{:4} {} -- {:>8}:", run->ranks, gpu ? "GPUs" : "ranks", label_of(*run, gpu ? "G" : "R"));
    if (head.empty()) head.assign(line.size(), ' ');
    for (const auto& [p, value] : kPercentiles) {
      const std::optional<double>& step_s = run->step_s.*value;
      line += fmt::format("  p{:02}:{:>{}}{:>{}}", p, seconds_text(step_s, digits), seconds_width,
                          examples_text(*run, step_s, digits), examples_width);
    }
    if (!run->finished()) line += fmt::format("  {}", kUnfinished);
    text += line + '\n';
  }
  for (size_t i = 0; i < kPercentiles.size(); ++i) {
    head += fmt::format("{:>{}}{:>{}}", "sec/iter", seconds_width + 6, "ex/sec", examples_width);
  }
  return head + '\n' + text;
}

Table ddp_table(const std::vector<const Run*>& rows) {
  const bool gpu = rows.front()->device != "cpu";
  const Digits digits = digits_for(rows);
  std::vector<RunColumn> columns{
      {gpu ? "GPUs" : "ranks", [](const Run& run) { return fmt::format("{}", run.ranks); }},
      {{"", kText}, [gpu](const Run& run) {
         const std::string label = label_of(run, gpu ? "G" : "R");
         return run.finished() ? label : fmt::format("{} ({})", label, kUnfinished);
       }}};
  for (const Percentile& percentile : kPercentiles) {
    const auto value = percentile.value;
    columns.push_back({fmt::format("p{} sec/iter", percentile.p),
                       [=](const Run& run) { return seconds_text(run.step_s.*value, digits); }});
    columns.push_back(
        {"ex/sec", [=](const Run& run) { return examples_text(run, run.step_s.*value, digits); }});
    const bool expendable = percentile.p == 75 || percentile.p == 90;
    for (const size_t back : {1, 2}) columns[columns.size() - back].column.expendable = expendable;
  }
  Table table = run_table(rows, columns, {});
  // Markdown and pages get a real table; a terminal gets PyTorch's own layout.
  table.terminal_text = pytorch_text(rows);
  return table;
}

/// "Benchmark: resnet50 with batch size 8, bf16".
std::string ddp_title(const ModelGroup& group, const Run& run, const std::vector<const Setting*>& varied) {
  std::string text = fmt::format("Benchmark: {} with {}", group.model, batch_text(run));
  for (const Setting* attribute : varied) text += ", " + attribute->phrase(run);
  return text;
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

Document ddp_tables(const RunRecord& record) {
  Document document;
  for (const ModelGroup& group : group_by_model(record)) {
    const auto varied = varying(group.runs);
    auto tables = group_by_attributes(group.runs);
    // A run that ended early may have nothing but its controls.
    if (tables.empty()) tables = group_by_attributes(group.controls);
    for (std::vector<const Run*>& rows : tables) {
      const Run& first = *rows.front();
      const Run* single = single_of(record, first);
      if (single != nullptr && single != &first) rows.insert(rows.begin(), single);
      // Some publications have rates alone.
      const auto timed = [](const Run* run) { return run->step_s.p50 || run->step_s.p75; };
      if (record.source == kPublished && std::ranges::none_of(rows, timed)) continue;
      document.add(Heading{ddp_title(group, first, varied)});
      document.add(ddp_table(rows));
      for (const Run* run : rows) {
        if (run->steps_per_sample() == 1) continue;
        document.add(Remark{"", fmt::format("({} {}: steps are means over whole periods)", run->strategy,
                                            run->strategy_options)});
      }
      if (!first.coupled) document.add(Remark{"", "(every rank goes its own way: steps of the slowest one)"});
    }
  }
  return document;
}

}  // namespace lockstep::results
