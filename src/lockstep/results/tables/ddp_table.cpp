#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

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
      if (!first.coupled) document.add(Remark{"", "(every rank goes its own way: steps of the slowest one)"});
    }
  }
  return document;
}

}  // namespace lockstep::results
