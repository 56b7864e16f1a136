#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/measure/compare.h"
#include "lockstep/measure/percentiles.h"
#include "lockstep/results/record/launches.h"
#include "lockstep/results/tables/diff.h"
#include "lockstep/results/tables/row_tables.h"

namespace lockstep::results {
namespace {

using measure::Certainty;
using measure::Comparison;

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
