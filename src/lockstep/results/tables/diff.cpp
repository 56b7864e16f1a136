#include "lockstep/results/tables/diff.h"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/measure/percentiles.h"
#include "lockstep/results/record/launches.h"

namespace lockstep::results {
namespace {

using measure::Comparison;
using Launches = std::vector<std::vector<double>>;

/// Steps of the shortest launch; launches without steps are left out of the comparison, too.
size_t fewest_steps(const Launches& launches) {
  size_t fewest = 0;
  for (const auto& launch : launches) {
    if (!launch.empty() && (fewest == 0 || launch.size() < fewest)) fewest = launch.size();
  }
  return fewest;
}

/// Whether the samples are a series of steps. Files of PyTorch's benchmark hold those of several ranks one
/// after the other.
bool pools_ranks(const Run& run) {
  return run.pooled && run.ranks > 1;
}

Comparison compare_pooled(const Launches& base, const Launches& test,
                          const measure::CompareOptions& options) {
  Comparison comparison;
  comparison.options = options;
  comparison.within_launches = true;
  comparison.base_s = measure::percentile(base.front(), 100 * options.quantile);
  comparison.test_s = measure::percentile(test.front(), 100 * options.quantile);
  if (comparison.base_s > 0) comparison.ratio = comparison.test_s / comparison.base_s;
  comparison.reason = "a file of PyTorch's benchmark pools the samples of ranks that move together";
  return comparison;
}

PercentileChange compare_percentile(const DiffRow& row, const Launches& base, const Launches& test,
                                    int percentile, const DiffOptions& options) {
  PercentileChange change;
  change.percentile = percentile;
  const measure::CompareOptions how{
      .quantile = percentile / 100.0, .threshold = options.threshold, .paired = options.paired};
  change.comparison.options = how;
  const int needed = measure::samples_needed(percentile);
  for (const auto& [side, launches] : {std::pair{"base", &base}, std::pair{"test", &test}}) {
    if (fewest_steps(*launches) >= static_cast<size_t>(needed)) continue;
    change.known = false;
    change.comparison.within_launches = !row.over_launches();
    change.comparison.reason = fmt::format("{}: p{} needs {} steps a launch, not {}", side, percentile,
                                           needed, fewest_steps(*launches));
    return change;
  }
  change.comparison = pools_ranks(*row.base) || pools_ranks(*row.test) ? compare_pooled(base, test, how)
                                                                       : measure::compare(base, test, how);
  return change;
}

DiffRow compare_row(const MatchedRow& matched, const Diff& diff) {
  DiffRow row;
  row.base = matched.base;
  row.test = matched.test;
  row.base_launches = launches(*matched.base);
  row.test_launches = launches(*matched.test);
  const Launches base = representative_steps_by_launch(*matched.base);
  const Launches test = representative_steps_by_launch(*matched.test);
  for (const int percentile : diff.percentiles) {
    row.changes.push_back(compare_percentile(row, base, test, percentile, diff.options));
    if (percentile == diff.options.decisive) row.verdict = row.changes.back().comparison;
  }
  return row;
}

bool differs(const Comparison& comparison) {
  return comparison.verdict == measure::Verdict::kFaster || comparison.verdict == measure::Verdict::kSlower;
}

void correct_verdicts(std::vector<DiffRow>& rows) {
  std::vector<Comparison> verdicts;
  for (const DiffRow& row : rows) verdicts.push_back(row.verdict);
  measure::correct_for_rows(verdicts);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].corrected_away = differs(rows[i].verdict) && !differs(verdicts[i]);
    rows[i].verdict = verdicts[i];
  }
}

/// "resnet50 with batch size 8 at 1, 2 ranks": lets the reader see why no rows match.
std::string what_is_in(const RunRecord& record) {
  if (record.runs.empty()) return "nothing";
  std::set<std::string> work;
  std::set<int> ranks;
  for (const Run& run : record.runs) {
    work.insert(run.global_batch > 0
                    ? fmt::format("{} with global batch size {}", run.model, run.global_batch)
                    : fmt::format("{} with batch size {}", run.model, run.batch_per_rank));
    ranks.insert(run.ranks);
  }
  return fmt::format("{} at {} ranks", fmt::join(work, ", "), fmt::join(ranks, ", "));
}

}  // namespace

int Diff::regressions() const {
  return static_cast<int>(
      std::ranges::count_if(rows, [](const DiffRow& row) { return row.verdict.is_regression(); }));
}

int Diff::rows_over_launches() const {
  return static_cast<int>(std::ranges::count_if(rows, &DiffRow::over_launches));
}

Diff compare_records(const RunRecord& base, const RunRecord& test, const DiffOptions& options) {
  Diff diff;
  diff.options = options;
  std::set<int> shown{75, 95};
  // Two percentiles fill a line.
  if (!shown.contains(options.decisive)) shown = {options.decisive, options.decisive > 95 ? 75 : 95};
  diff.percentiles.assign(shown.begin(), shown.end());
  diff.header = compare_headers(base, test);
  RowMatching matching = match_rows(base, test);
  if (matching.rows.empty()) {
    throw ConfigError(
        "the two files have no row in common",
        fmt::format("Rows belong together when model, batch and ranks are the same. The base has "
                    "{}; the test has {}.",
                    what_is_in(base), what_is_in(test)));
  }
  diff.changes = std::move(matching.changes);
  diff.only_base = std::move(matching.only_base);
  diff.only_test = std::move(matching.only_test);
  for (const MatchedRow& matched : matching.rows) diff.rows.push_back(compare_row(matched, diff));
  correct_verdicts(diff.rows);
  return diff;
}

double parse_threshold(const std::string& text) {
  std::string_view number = text;
  const bool percent = number.ends_with('%');
  if (percent) number.remove_suffix(1);
  while (number.ends_with(' ')) number.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool whole = error == std::errc() && end == number.data() + number.size();
  if (whole && percent && value >= 0 && value <= 1000) return value / 100;
  if (whole && !percent && value >= 0 && value < 1) return value;
  throw ConfigError(fmt::format("--threshold '{}' is no share of the step time", text),
                    whole && value >= 1 ? fmt::format("Say {:g}% for {:g} per cent.", value, value)
                                        : "Give per cent with its sign (2%), or a share below 1 (0.02).");
}

}  // namespace lockstep::results
