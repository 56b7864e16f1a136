#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/units.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

struct MemoryPart {
  const char* name;
  ByteRange ReplicaMemory::*range;
};

constexpr std::array<MemoryPart, 5> kMemoryParts{{{"parameters", &ReplicaMemory::parameters},
                                                  {"gradients", &ReplicaMemory::gradients},
                                                  {"momenta", &ReplicaMemory::momenta},
                                                  {"send buffers", &ReplicaMemory::buffers},
                                                  {"together", &ReplicaMemory::total}}};

/// "97.5 MiB", or "48.8 MiB to 97.5 MiB" where ranks differ.
std::string range_text(const ByteRange& range) {
  const std::string least = format_bytes(range.least);
  const std::string most = format_bytes(range.most);
  return least == most ? most : fmt::format("{} to {}", least, most);
}

/// "12345" faults of the rank that had the most; "-" in files from before they were counted.
std::string page_faults_text(const Run& run) {
  if (!run.resources || run.resources->page_faults.empty()) return kNoValue;
  return fmt::format("{}", std::ranges::max(run.resources->page_faults));
}

/// A column for each part of a replica's memory, and one for page faults.
Table memory_table(const std::vector<const Run*>& rows) {
  std::vector<RunColumn> columns;
  for (const MemoryPart& part : kMemoryParts) {
    columns.push_back(
        {part.name, [range = part.range](const Run& run) { return range_text((*run.memory).*range); }});
  }
  columns.push_back({"page faults", page_faults_text});
  columns.back().column.expendable = true;
  return run_table(rows, columns);
}

/// "negotiation" and "0.375 ms" for negotiation_s.
std::pair<std::string, std::string> words_and_value(const OwnMeasure& measure) {
  std::string words = measure.name;
  const bool seconds = words.ends_with("_s");
  if (seconds) words.resize(words.size() - 2);
  std::ranges::replace(words, '_', ' ');
  if (seconds) return {words, fmt::format("{:.3f} ms", 1000 * measure.value)};
  const bool whole = measure.over == "in all" || measure.over == "most";
  return {words, whole ? fmt::format("{:.0f}", measure.value) : fmt::format("{:.2f}", measure.value)};
}

/// A row for each measure; the first one of a run names the run.
Table measures_table(const std::vector<const Run*>& rows) {
  Table table{.columns = {"ranks", {"strategy", kText}, {"measured", kText}, "value", {"", kText}}};
  for (const Run* run : rows) {
    for (const OwnMeasure& measure : run->own_measures) {
      const bool first = &measure == &run->own_measures.front();
      const auto [words, value] = words_and_value(measure);
      table.add_row({first ? fmt::format("{}", run->ranks) : "", first ? strategy_text(*run) : "", words,
                     value, measure.over});
    }
  }
  return table;
}

/// " (x 1.08 against 25 [1.05, 1.11])"; empty if the default was the fastest.
std::string speedup_text(const BucketTuning& tuning) {
  if (!tuning.speedup) return "";
  const std::string interval =
      tuning.speedup_low && tuning.speedup_high
          ? fmt::format(" [{:.2f}, {:.2f}]", *tuning.speedup_low, *tuning.speedup_high)
          : "";
  return fmt::format(" (x {:.2f} against {:g}{})", *tuning.speedup, tuning.default_mb, interval);
}

/// The choice, and how to repeat it without another search.
std::string tuning_verdict(const BucketTuning& tuning) {
  if (tuning.chosen_mb == tuning.default_mb) {
    return fmt::format("--bucket-mb {:g} stays: {}{}", tuning.chosen_mb, tuning.reason, speedup_text(tuning));
  }
  return fmt::format("--bucket-mb {:g}{}; use it next time with --bucket-mb {:g}", tuning.chosen_mb,
                     speedup_text(tuning), tuning.chosen_mb);
}

/// A line of epochs; head and lines have the same widths, because they are printed as they come.
std::string epochs_text(const std::array<std::string, 8>& cells, bool evaluated) {
  constexpr std::array kWidths{5, 10, 12, 11, 12, 11, 12, 13};
  std::string text;
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool of_evaluation = i == 5 || i == 6;
    if (evaluated || !of_evaluation) text += fmt::format("{:>{}}", cells[i], kWidths[i]);
  }
  return text + '\n';
}

}  // namespace

Document memory_tables(const RunRecord& record) {
  return grouped_tables(
      record, [](const Run& run) { return run.memory && run.breakdown; }, "Memory per rank: {}", memory_table,
      {{"",
        "What a replica keeps from step to step; activations and input come on top. page faults: of the "
        "rank with the most, while the row ran; many per step mean that the allocator "
        "returns memory which the next step asks for again."}});
}

Document measures_tables(const RunRecord& record) {
  return grouped_tables(record, [](const Run& run) { return !run.own_measures.empty(); },
                        "Measured by the strategies themselves: {}", measures_table,
                        {{"", "Over all steps, warm-up included; per step: mean over ranks and steps."}});
}

Document tuning_remarks(const RunRecord& record) {
  Document document;
  for (const Run& run : record.runs) {
    if (!run.tuning) continue;
    std::string words = fmt::format("{} {} at {} ranks: {}.", run.model, run.strategy, run.ranks,
                                    tuning_verdict(*run.tuning));
    std::vector<std::string> tried;
    for (const BucketCandidate& candidate : run.tuning->candidates) {
      tried.push_back(fmt::format("{}: {}", candidate.bucket_mb, format_number(1000 * candidate.step_s, 4)));
    }
    if (!tried.empty()) words += fmt::format(" Tried, MiB and ms per step: {}.", fmt::join(tried, ", "));
    document.add(Remark{"Tuned: ", words, document.empty()});
  }
  return document;
}

Document replica_checks_remark(const RunRecord& record) {
  std::vector<std::string> compared, left_out;
  int every = 0;
  for (const Run& run : record.runs) {
    if (!run.replica_checks) continue;
    const ReplicaChecks& checks = *run.replica_checks;
    every = checks.every;
    if (checks.not_applicable.empty()) {
      compared.push_back(
          fmt::format("{} {} at {} ranks ({} times)", run.model, run.strategy, run.ranks, checks.checks));
      continue;
    }
    const std::string reason = fmt::format("{} ({})", run.strategy, checks.not_applicable);
    if (std::ranges::find(left_out, reason) == left_out.end()) left_out.push_back(reason);
  }
  if (compared.empty() && left_out.empty()) return {};
  std::string text = fmt::format("compared bit for bit every {} steps, and equal: {}.", every,
                                 compared.empty() ? "none" : fmt::format("{}", fmt::join(compared, ", ")));
  if (!left_out.empty()) text += fmt::format(" Not compared: {}.", fmt::join(left_out, ", "));
  return Remark{"Replicas: ", text, true};
}

std::string epochs_head(bool evaluated, const std::string& unit) {
  return epochs_text({"epoch", "steps", "rate", "loss", "accuracy", "eval loss", "eval acc.", unit + "s/s"},
                     evaluated);
}

std::string epoch_line(const EpochRecord& epoch, bool evaluated) {
  return epochs_text(
      {std::to_string(epoch.epoch), std::to_string(epoch.steps), format_number(epoch.learning_rate, 4, 1e-7),
       std::isnan(epoch.loss) ? "nan" : fmt::format("{:.4f}", epoch.loss),
       percent_text(epoch.training_accuracy, 2), fixed_text(epoch.evaluation_loss, 4),
       percent_text(epoch.evaluation_accuracy, 2), fixed_text(epoch.images_per_s, 1)},
      evaluated);
}

Document epochs_table(const TrainingRecord& training) {
  const bool evaluated = std::ranges::any_of(
      training.epochs, [](const EpochRecord& epoch) { return epoch.evaluation_loss.has_value(); });
  std::string text = epochs_head(evaluated, training.unit);
  for (const EpochRecord& epoch : training.epochs) text += epoch_line(epoch, evaluated);
  return Preformatted{text};
}

}  // namespace lockstep::results
