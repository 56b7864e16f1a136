#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/measure/compare.h"
#include "lockstep/measure/series.h"
#include "lockstep/results/record/launches.h"
#include "lockstep/results/tables/diff.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

using measure::Certainty;
using measure::Comparison;
using measure::Verdict;

/// A longer entry of the header gets lines of its own.
constexpr size_t kHeaderField = 32;

/// "resnet50 ddp at 2 ranks".
std::string row_name(const Run& run) {
  return fmt::format("{} {} at {}", run.model, strategy_text(run), counted(run.ranks, "rank"));
}

/// "bucket (25 in base, 1 in test)": the settings that the two are compared for.
std::string changes_text(const Diff& diff, std::string_view base, std::string_view test) {
  std::vector<std::string> changes;
  for (const SettingChange& change : diff.changes)
    changes.push_back(
        fmt::format("{} ({} in {}, {} in {})", change.name, change.base, base, change.test, test));
  return fmt::format("{}", fmt::join(changes, ", "));
}

/// The circumstances of both measurements, their differences, and the settings that are compared.
void add_header(Document& document, const Diff& diff) {
  Table table{.columns = {{"", kText}, {"", kText}, {"base", kText}, {"", kText}, {"test", kText}},
              .longest_cell = kHeaderField};
  std::vector<std::string> of_device;
  for (const HeaderEntry& entry : diff.header) {
    table.add_row({entry.differs ? "*" : "", entry.name + ":", entry.base, "vs", entry.test});
    if (entry.differs && entry.of_device) of_device.push_back(entry.name);
  }
  document.add(std::move(table));
  const bool any = std::ranges::any_of(diff.header, &HeaderEntry::differs);
  document.add(Remark{"", any ? "(* differs)" : "(nothing of this differs)"});
  if (!of_device.empty()) {
    document.add(Remark{
        "Warning: ", fmt::format("the two were not measured on the same device ({}): a change below may be "
                                 "the device's.",
                                 fmt::join(of_device, ", "))});
  }
  if (diff.one_after_the_other) {
    document.add(
        Remark{"Warning: ",
               "the launches of base and test did not take turns: a drift of the machine looks like a "
               "change. 'lockstep compare' takes turns, and so does 'bench --append' to one file after "
               "the other."});
  }
  if (diff.changes.empty()) return;
  document.add(Remark{"Compared for: ", changes_text(diff, "base", "test")});
  if (diff.changes.size() > 1) {
    document.add(
        Remark{"              ",
               "Several settings differ at once, so no change below can be put down to one of them."});
  }
}

/// Settings that keep rows apart, except the compared ones.
std::vector<const Setting*> varied_settings(const Diff& diff) {
  std::vector<const Run*> runs;
  for (const DiffRow& row : diff.rows) runs.push_back(row.base);
  std::vector<const Setting*> varied = varied_settings(runs);
  std::erase_if(varied, [&](const Setting* setting) {
    return std::ranges::any_of(diff.changes,
                               [&](const SettingChange& change) { return change.name == setting->name; });
  });
  return varied;
}

/// Digits after the point that leave three of the smallest time.
int seconds_digits(const std::vector<const DiffRow*>& rows) {
  double least_s = std::numeric_limits<double>::infinity();
  for (const DiffRow* row : rows) {
    for (const PercentileChange& change : row->changes) {
      if (change.known) least_s = std::min({least_s, change.comparison.base_s, change.comparison.test_s});
    }
  }
  int digits = 3;
  for (double limit_s = 0.1; digits < 6 && least_s < limit_s; limit_s /= 10) ++digits;
  return digits;
}

/// "+1.2 ± 0.4": the change in per cent with half the width of its interval.
std::string change_text(const Comparison& comparison) {
  const auto interval = comparison.change_percent_interval();
  // Never "-0.0".
  const double percent = std::abs(comparison.change_percent()) < 0.05 ? 0 : comparison.change_percent();
  if (!interval) return fmt::format("{:+.1f}", percent);
  const double half = 0.5 * (interval->upper - interval->lower);
  if (half > 100) return fmt::format("{:+.1f} ± >100", percent);
  return fmt::format("{:+.1f} ± {:.1f}", percent, half);
}

/// "slower (here)" for a verdict that holds for these launches only.
std::string verdict_words(const Comparison& comparison) {
  std::string text(measure::verdict_text(comparison.verdict));
  if (comparison.differs() && comparison.within_launches) text += " (here)";
  return text;
}

/// "rate faster (here)" where only the mean rate tells.
std::string verdict_cell(const DiffRow& row) {
  if (row.only_mean_differs()) return "rate " + verdict_words(row.mean);
  return verdict_words(row.verdict);
}

/// "training at 1 rank: 647 samples/s in base, 23,578 in test, +96.3 ± 4.0 % of the mean step: faster
/// (here); p75: same within noise. A few long steps make the difference."
std::string mean_sentence(const DiffRow& row, int percentile) {
  const bool tail = row.verdict.verdict == Verdict::kSame && row.mean.differs();
  return fmt::format("{}: {} {} in base, {} {} in test, {} % of the mean step: {}; p{}: {}.{}",
                     row_name(*row.base), number_text(row.base->images_per_s), row.base->rate_unit(),
                     number_text(row.test->images_per_s), row.test->rate_unit(), change_text(row.mean),
                     verdict_words(row.mean), percentile, verdict_words(row.verdict),
                     tail ? " A few long steps make the difference." : "");
}

bool has_phases(const DiffRow& row) {
  return row.base->breakdown && row.test->breakdown && positive(row.base->breakdown->mean.step_s) &&
         positive(row.test->breakdown->mean.step_s);
}

/// "29.0 ms less".
std::string less_or_more(double change_s) {
  return time_text(std::abs(change_s)) + (change_s < 0 ? " less" : " more");
}

/// "A mean step takes 29.0 ms less in test (62.0 ms in base): input 29.0 ms less." Names the phases that
/// change by `threshold` of a step, the one that changes most first.
std::string phases_sentence(const DiffRow& row, double threshold) {
  const PhaseTimes& base = row.base->breakdown->mean;
  const PhaseTimes& test = row.test->breakdown->mean;
  const double least_s = threshold * std::max(base.step_s, test.step_s);
  std::vector<std::pair<double, std::string>> changes;
  for (const Phase& phase : kPhases) {
    const double change_s = test.*phase.seconds - base.*phase.seconds;
    if (std::abs(change_s) >= least_s)
      changes.emplace_back(-std::abs(change_s), fmt::format("{} {}", phase.name, less_or_more(change_s)));
  }
  std::ranges::stable_sort(changes, {}, &std::pair<double, std::string>::first);
  std::vector<std::string> parts;
  for (auto& change : changes) parts.push_back(std::move(change.second));
  const double longer_s = test.step_s - base.step_s;
  return fmt::format("A mean step takes {} in test ({} in base): {}.",
                     std::abs(longer_s) < least_s ? "as long" : less_or_more(longer_s),
                     time_text(base.step_s),
                     parts.empty() ? fmt::format("no phase changes by {:g} % of it", 100 * threshold)
                                   : fmt::format("{}", fmt::join(parts, ", ")));
}

/// Phases of both sides, for rows that have them; then what made the difference.
void add_phases(Document& document, const std::vector<const DiffRow*>& rows, const Diff& diff) {
  std::vector<const Run*> runs;
  std::set<const Run*> base;
  std::vector<Remark> remarks;
  for (const DiffRow* row : rows) {
    if (!has_phases(*row)) continue;
    base.insert(row->base);
    runs.insert(runs.end(), {row->base, row->test});
    remarks.push_back({row_name(*row->base) + ": ", phases_sentence(*row, diff.options.threshold)});
  }
  if (runs.empty()) return;
  std::vector<RunColumn> names = ranks_and_strategy();
  names.push_back({{"", kText}, [&](const Run& run) { return base.contains(&run) ? "base" : "test"; }});
  document.add(Heading{"Phases of a mean step, milliseconds"});
  document.add(phases_table(runs, names));
  for (Remark& remark : remarks) document.add(std::move(remark));
}

/// A row per number of ranks and strategy; three columns for each percentile.
Table rows_table(const std::vector<const DiffRow*>& rows, const Diff& diff) {
  const int digits = seconds_digits(rows);
  Table table{.columns = {"ranks", {"strategy", kText}}};
  for (const int percentile : diff.percentiles) {
    table.add_column(fmt::format("p{} base", percentile));
    table.add_column("test");
    table.add_column("change %");
  }
  table.add_column({"verdict", kText});
  for (const DiffRow* row : rows) {
    std::vector<Cell> cells{fmt::format("{}", row->base->ranks), strategy_text(*row->test)};
    for (const auto& [percentile, known, comparison] : row->changes) {
      if (known) {
        cells.push_back(fmt::format("{:.{}f}s", comparison.base_s, digits));
        cells.push_back(fmt::format("{:.{}f}s", comparison.test_s, digits));
        cells.push_back(change_text(comparison));
      } else {
        cells.insert(cells.end(), 3, kNoValue);
      }
    }
    cells.push_back(verdict_cell(*row));
    table.add_row(std::move(cells));
  }
  return table;
}

/// The tables: rows that share model, batch and settings share one.
void add_rows(Document& document, const Diff& diff) {
  const auto varied = varied_settings(diff);
  std::vector<std::pair<std::string, std::vector<const DiffRow*>>> tables;
  for (const DiffRow& row : diff.rows) {
    const Run& run = *row.base;
    const std::string title =
        fmt::format("Benchmark: {} with {}{}", run.model, batch_text(run), settings_text(run, varied));
    auto table = std::ranges::find(tables, title, &decltype(tables)::value_type::first);
    if (table == tables.end()) table = tables.insert(tables.end(), {title, {}});
    table->second.push_back(&row);
  }
  for (auto& [title, rows] : tables) {
    // Same order as in bench: without a strategy first, then the strategies, then the control.
    std::ranges::stable_sort(rows, {}, [](const DiffRow* row) {
      return row->base->role() == Role::kBaseline ? 0 : communicates(*row->base) ? 1 : 2;
    });
    document.add(Heading{title});
    document.add(rows_table(rows, diff));
    add_phases(document, rows, diff);
  }
}

/// Number of launches on a side, "2" or "2 to 5".
std::string span_text(const std::vector<DiffRow>& rows, int DiffRow::*launches) {
  const auto [least, most] = std::ranges::minmax(rows, {}, launches);
  return least.*launches == most.*launches ? fmt::format("{}", least.*launches)
                                           : fmt::format("{} to {}", least.*launches, most.*launches);
}

/// The basis of the verdicts: the unit of comparison and its consequence.
std::string method_text(const Diff& diff) {
  std::string text = fmt::format(
      "Seconds per step; change in per cent of the base with its 95 % interval, positive is faster. The "
      "verdict is that of p{}. ",
      diff.options.decisive);
  const int over = diff.rows_over_launches();
  if (over > 0) {
    text += fmt::format("The launch is the unit: {} in base against {} in test",
                        span_text(diff.rows, &DiffRow::base_launches),
                        span_text(diff.rows, &DiffRow::test_launches));
    const bool pairs = std::ranges::all_of(diff.rows, &DiffRow::has_pairs);
    if (diff.options.paired) {
      const bool median =
          std::ranges::any_of(diff.rows, [](const DiffRow& row) { return row.verdict.is_of_pairs(); });
      text += median
                  ? ", compared in pairs: a change is the median of the pairs' changes, not that of the two "
                    "times beside it"
              : pairs ? ", compared in pairs"
                      : ", not in pairs where they are not as many on both sides, three or more";
    }
    text += ". ";
  }
  if (over < static_cast<int>(diff.rows.size())) {
    const bool recorded = std::ranges::all_of(
        diff.rows, [](const DiffRow& row) { return row.base->recorded && row.test->recorded; });
    text += fmt::format(
        "{} a single launch on a side: it can be said that these launches differ (here), not that the next "
        "ones will; {}.",
        over == 0 ? "There is" : "Some rows have",
        recorded ? "further recordings, added with lockstep import --append, say that"
                 : "lockstep bench --repeat 5 measures that");
  }
  return text;
}

/// The reason behind "not enough data", without these words.
std::string reason_text(const Comparison& comparison) {
  for (const std::string side : {"base", "test"}) {
    if (comparison.reason == side + ": not enough data")
      return "too few steps in " + side + " for an interval";
  }
  return comparison.reason;
}

/// Percentiles that some row is too short for: "p95 needs 20".
std::vector<std::string> unknown_percentiles(const Diff& diff) {
  std::vector<std::string> unknown;
  for (size_t i = 0; i < diff.percentiles.size(); ++i) {
    const int percentile = diff.percentiles[i];
    if (std::ranges::any_of(diff.rows, [&](const DiffRow& row) { return !row.changes[i].known; }))
      unknown.push_back(fmt::format("p{} needs {}", percentile, measure::samples_needed(percentile)));
  }
  return unknown;
}

/// The basis of the verdicts, then the reasons behind everything that the tables leave open.
void add_notes(Document& document, const Diff& diff) {
  document.add(Remark{"", method_text(diff), true});
  std::map<std::string, std::vector<std::string>> by_reason;
  std::vector<std::string> corrected;
  for (const DiffRow& row : diff.rows) {
    if (row.verdict.verdict == Verdict::kNotEnoughData)
      by_reason[reason_text(row.verdict)].push_back(row_name(*row.base));
    if (row.corrected_away) corrected.push_back(row_name(*row.base));
    if (row.mean_disagrees()) document.add(Remark{"Mean rate: ", mean_sentence(row, diff.options.decisive)});
  }
  for (const auto& [reason, rows] : by_reason) {
    document.add(Remark{"not enough data: ", fmt::format("{} ({})", reason, fmt::join(rows, ", "))});
  }
  if (const auto unknown = unknown_percentiles(diff); !unknown.empty())
    document.add(Remark{"-: ", fmt::format("too few steps in a launch ({})", fmt::join(unknown, ", "))});
  if (!corrected.empty()) {
    document.add(Remark{"same within noise: ",
                        fmt::format("alone it would differ, but one of {} rows does by chance, too ({})",
                                    diff.rows.size(), fmt::join(corrected, ", "))});
  }
  for (const auto& [side, runs] : {std::pair{"base", &diff.only_base}, std::pair{"test", &diff.only_test}}) {
    std::vector<std::string> rows;
    for (const Run* run : *runs) {
      rows.push_back(row_name(*run) + settings_text(*run, varied_settings(*runs)));
    }
    if (!rows.empty())
      document.add(Remark{fmt::format("Only in {}: ", side), fmt::format("{}", fmt::join(rows, "; "))});
  }
  for (const auto& [side, runs] :
       {std::pair{"base", &diff.unfinished_base}, std::pair{"test", &diff.unfinished_test}}) {
    for (const Run* run : *runs) {
      document.add(
          Remark{"Not compared: ", fmt::format("{}, in {}: {}", row_name(*run), side, run->unfinished)});
    }
  }
}

/// "3 rows: 1 slower, 2 same within noise."
std::string counts_text(const Diff& diff) {
  std::vector<std::string> words;
  for (const Verdict verdict :
       {Verdict::kFaster, Verdict::kSlower, Verdict::kSame, Verdict::kNotEnoughData}) {
    for (const bool by_mean : {false, true}) {
      const auto count = std::ranges::count_if(diff.rows, [&](const DiffRow& row) {
        return row.only_mean_differs() == by_mean &&
               (by_mean ? row.mean.verdict : row.verdict.verdict) == verdict;
      });
      if (count > 0)
        words.push_back(fmt::format("{} {}{}", count, measure::verdict_text(verdict),
                                    by_mean ? " by the mean rate alone" : ""));
    }
  }
  return fmt::format("{}: {}.", counted(static_cast<int64_t>(diff.rows.size()), "row"),
                     fmt::join(words, ", "));
}

/// The numbers of rows, and the regressions by name.
void add_summary(Document& document, const Diff& diff) {
  std::vector<std::string> regressions;
  for (const DiffRow& row : diff.rows) {
    if (row.is_regression()) regressions.push_back(row_name(*row.base));
  }
  document.add(Remark{"", counts_text(diff), true});
  const std::string all = regressions.empty() ? "none." : fmt::format("{}.", fmt::join(regressions, ", "));
  document.add(Remark{fmt::format("Regressions beyond {:g} %: ", 100 * diff.options.threshold),
                      diff.rows_over_launches() == 0 ? "cannot be told from a single launch on a side."
                      : diff.judged_rows() == 0      ? "cannot be told."
                                                     : all});
}

/// Images of the whole job in a step.
double images_per_step(const Run& run) {
  return run.ranks * run.images_per_rank_step();
}

/// The rate of each launch at the percentile of its step time; none of a launch without steps.
std::vector<double> launch_rates(const Run& run, int percentile) {
  std::vector<double> found;
  for (const std::vector<double>& steps : representative_steps_by_launch(run)) {
    if (!steps.empty()) found.push_back(images_per_step(run) / measure::percentile(steps, percentile));
  }
  return found;
}

std::string step_text(int percentile) {
  return percentile == 50 ? "median step" : fmt::format("p{} of the step time", percentile);
}

/// A line per pair of launches.
Table launches_table(const DiffRow& row, int percentile) {
  const std::vector<double> base = launch_rates(*row.base, percentile);
  const std::vector<double> test = launch_rates(*row.test, percentile);
  std::vector<double> all = base;
  all.insert(all.end(), test.begin(), test.end());
  const int digits = all.empty() ? 0 : rate_digits(std::ranges::min(all));
  Table table{.columns = {"pair", {"first", kText}, "base", "test", "test/base"}};
  for (size_t pair = 0; pair < std::min(base.size(), test.size()); ++pair) {
    table.add_row({fmt::format("{}", pair + 1), pair % 2 == 0 ? "base" : "test",
                   fmt::format("{:.{}f}", base[pair], digits), fmt::format("{:.{}f}", test[pair], digits),
                   fmt::format("{:.3f}", test[pair] / base[pair])});
  }
  if (row.verdict.base_s > 0 && row.verdict.test_s > 0) {
    table.add_row({"all", "", fmt::format("{:.{}f}", images_per_step(*row.base) / row.verdict.base_s, digits),
                   fmt::format("{:.{}f}", images_per_step(*row.test) / row.verdict.test_s, digits),
                   fmt::format("{:.3f}", row.verdict.base_s / row.verdict.test_s)});
  }
  return table;
}

/// "0.953 times the rate of base [0.941, 0.966]": the rate is the inverse of the time.
std::string ratio_text(const Comparison& row) {
  std::string text = fmt::format("{:.3f} times the rate of base", 1 / row.ratio);
  if (row.ratio_interval)
    text += fmt::format(" [{:.3f}, {:.3f}]", 1 / row.ratio_interval->upper, 1 / row.ratio_interval->lower);
  return text;
}

std::string verdict_sentence(const Comparison& row) {
  if (row.base_s == 0) return fmt::format("cannot be judged: {}.", row.reason);
  const std::string threshold = fmt::format("{:g} %", 100 * row.options.threshold);
  switch (measure::certainty_of(row)) {
    case Certainty::kDiffers: {
      const bool beyond = std::abs(row.ratio - 1) > row.options.threshold;
      return fmt::format("test is {}: {}. The difference is certain{} the threshold of {}.",
                         measure::verdict_text(row.verdict), ratio_text(row),
                         beyond ? ", and beyond" : ", but not beyond", threshold);
    }
    case Certainty::kBelowThreshold:
      return fmt::format("no difference of {} or more: test has {}.", threshold, ratio_text(row));
    case Certainty::kOpen:
      break;
  }
  return fmt::format("not certain: test has {}{}.", ratio_text(row),
                     row.reason.empty() ? "" : fmt::format(" ({})", row.reason));
}

/// The reason for the end, and advice where nothing is certain.
std::string end_text(const Diff& diff, const Turns& turns) {
  std::string text = fmt::format("Ended after {} launch{} of each side, in {}", turns.pairs,
                                 turns.pairs == 1 ? "" : "es", format_duration(turns.elapsed_s));
  if (turns.end == TurnsEnd::kInterrupted) text += ", by a signal";
  if (turns.end == TurnsEnd::kFailed) text += ", since a launch failed";
  if (turns.end == TurnsEnd::kMostLaunches) text += ", the most that --max-launches allows";
  if (turns.end == TurnsEnd::kMaxTime) text += ", since --max-time leaves no time for two more";
  text += ".";
  if (!diff.is_certain()) {
    text +=
        " For certainty allow more launches (--max-launches, --max-time), keep the machine free of other "
        "work, or be content with a larger --threshold.";
  }
  return text;
}

}  // namespace

std::string row_label(const DiffRow& row, const Diff& diff) {
  const Run& run = *row.base;
  const bool other_strategy = std::ranges::any_of(
      diff.changes, [](const SettingChange& change) { return change.name == "strategy"; });
  const std::string name =
      other_strategy ? fmt::format("{} at {}", run.model, counted(run.ranks, "rank")) : row_name(run);
  return name + settings_text(run, varied_settings(diff));
}

Document diff_tables(const Diff& diff) {
  Document document;
  add_header(document, diff);
  add_rows(document, diff);
  add_notes(document, diff);
  add_summary(document, diff);
  return document;
}

Document verdicts(const NamedRecord& base, const NamedRecord& test) {
  constexpr size_t kMostRows = 6;
  const std::string both = fmt::format("{} against {}: ", test.name, base.name);
  if (match_rows(base.record, test.record).rows.empty()) {
    return Remark{both, match_rows(base.record, test.record, /*as_same=*/true).rows.empty()
                            ? "no row in common."
                            : "it is not known whether they are the same training; `lockstep diff --as-same` "
                              "compares them all the same."};
  }
  const Diff diff = compare_records(base.record, test.record);
  const std::string changes = changes_text(diff, base.name, test.name);
  Document document =
      Remark{both, counts_text(diff) + (changes.empty() ? "" : " They differ in " + changes + ".")};
  // Strategies first, at their most ranks.
  std::vector<const DiffRow*> rows;
  for (const DiffRow& row : diff.rows) rows.push_back(&row);
  std::ranges::stable_sort(rows, std::greater(), [](const DiffRow* row) {
    return std::pair(communicates(*row->base), row->base->ranks);
  });
  rows.resize(std::min(kMostRows, rows.size()));
  List list;
  for (const DiffRow* row : rows) {
    std::string text = fmt::format("{}: {}", row_label(*row, diff), verdict_cell(*row));
    if (!row->verdict.reason.empty()) text += fmt::format(" ({})", reason_text(row->verdict));
    if (row->verdict.base_s > 0) {
      text += fmt::format(", {} % by p{} of the step time", change_text(row->verdict), diff.options.decisive);
    }
    if (row->mean_disagrees()) text += fmt::format(", {} % by its mean", change_text(row->mean));
    text += ".";
    if (has_phases(*row)) text += " " + phases_sentence(*row, diff.options.threshold);
    list.items.push_back(text);
  }
  list.items.push_back(
      "Positive is faster; (here) says nothing of the next launches. `lockstep diff` has all rows, and why.");
  document.add(std::move(list));
  return document;
}

Document compare_tables(const Diff& diff, const Turns& turns) {
  Document document;
  const int percentile = diff.options.decisive;
  for (const DiffRow& row : diff.rows) {
    document.add(Heading{fmt::format("{}: {} of each launch, at the {}", row_label(row, diff),
                                     row.base->rate_unit(), step_text(percentile))});
    document.add(launches_table(row, percentile));
  }
  for (const DiffRow& row : diff.rows) {
    const std::string lead = diff.rows.size() == 1 ? "Verdict: " : row_label(row, diff) + ": ";
    document.add(Remark{lead, verdict_sentence(row.verdict), &row == &diff.rows.front()});
  }
  document.add(Remark{"", end_text(diff, turns), true});
  document.add(Remark{
      "", fmt::format(
              "The ratio is that of the pairs, not of the line 'all', and [ ] its interval. Such a "
              "comparison is looked at up to {} times; the "
              "interval is one of {:.2f} % at this look, so that those of all looks hold together with 95 %.",
              turns.looks, 100 * diff.options.confidence)});
  return document;
}

}  // namespace lockstep::results
