#include "lockstep/results/tables/labels.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/row_tables.h"

namespace lockstep::results {
namespace {

/// "batch 32", or "batch 64 in all" under strong scaling.
std::string batch_label(const Run& run) {
  return run.global_batch > 0 ? fmt::format("batch {} in all", run.global_batch)
                              : fmt::format("batch {}", run.batch_per_rank);
}

/// All settings of a run except its number of ranks. An unfinished run stands for no other of its settings.
std::string work_key(const Run& run) {
  std::string key = fmt::format("{}\n{}\n{}\n{}", run.model, run.device, batch_label(run), run.finished());
  for (const Setting& attribute : attributes()) key += "\n" + attribute.text(run);
  return key;
}

/// Strategy, batch, other settings and record, as far as they vary.
std::string label_of(const LabelledRun& labelled, const std::vector<const Setting*>& varied, bool with_batch,
                     const std::string& record) {
  const Run& run = *labelled.run;
  std::string label = run.strategy.empty() ? "?" : run.strategy;
  if (labelled.control) label += " (control)";
  if (!run.finished()) label += fmt::format(" ({})", kUnfinished);
  if (with_batch) label += ", " + batch_label(run);
  label += settings_text(run, varied);
  return record.empty() ? label : label + ", " + record;
}

}  // namespace

std::vector<std::string> display_names(const std::vector<std::string>& paths) {
  std::map<std::string, int> count;
  const auto short_name = [](const std::string& path) { return std::filesystem::path(path).stem().string(); };
  for (const std::string& path : paths) ++count[short_name(path)];
  std::vector<std::string> names;
  for (const std::string& path : paths)
    // Two files of one name in different folders keep their paths.
    names.push_back(count[short_name(path)] > 1 ? path : short_name(path));
  return names;
}

bool all_published(std::span<const NamedRecord> records) {
  return !records.empty() && std::ranges::all_of(records, [](const NamedRecord& named) {
    return named.record.source == kPublished;
  });
}

void complete(Sources& sources) {
  if (sources.records.empty()) sources.records.swap(sources.published);
  for (NamedRecord& named : sources.records) {
    // Files of PyTorch's benchmark, and parts of records, come without.
    const bool known =
        std::ranges::any_of(named.record.runs, [](const Run& run) { return run.speedup.has_value(); });
    if (!known) assign_baselines(named.record);
  }
}

std::vector<LabelledRun> labelled_runs(std::span<const NamedRecord> records) {
  std::vector<LabelledRun> runs;
  if (records.size() > 1 && all_published(records)) {
    // Publications differ in more settings than a label holds: each is labelled by itself.
    for (size_t record = 0; record < records.size(); ++record) {
      for (LabelledRun& run : labelled_runs(records.subspan(record, 1))) {
        run.record = record;
        run.curve = fmt::format("{}\n{}", record, run.work);
        run.label = fmt::format("{}: {}", records[record].name, run.label);
        run.label_in_network = fmt::format("{}: {}", records[record].name, run.label_in_network);
        runs.push_back(std::move(run));
      }
    }
    return runs;
  }
  // A label has varying settings only. Controls lack the settings of communication.
  std::vector<const Run*> measured;
  std::set<std::string> models, batches;
  for (size_t record = 0; record < records.size(); ++record) {
    for (const Run& run : records[record].record.runs) {
      const bool control = is_control(records[record].record, run);
      const std::string work = work_key(run);
      runs.push_back({.run = &run,
                      .record = record,
                      .control = control,
                      .work = work,
                      .curve = fmt::format("{}\n{}", record, work)});
      models.insert(run.model);
      if (control) continue;
      measured.push_back(&run);
      batches.insert(batch_label(run));
    }
  }
  std::vector<const Setting*> varied = varied_settings(measured);
  std::erase_if(varied, [&](const Setting* setting) {
    // A record that lacks a setting does not differ in it.
    std::set<std::string> known;
    for (const Run* run : measured) known.insert(setting->text(*run));
    known.erase("");
    return known.size() < 2;
  });
  for (LabelledRun& run : runs) {
    run.label_in_network =
        label_of(run, varied, batches.size() > 1, records.size() > 1 ? records[run.record].name : "");
    run.label = models.size() > 1 ? run.run->model + ", " + run.label_in_network : run.label_in_network;
  }
  return runs;
}

std::string with_ranks(const LabelledRun& run) {
  return run.label + ", " + counted(run.run->ranks, "rank");
}

std::string with_ranks_only(const LabelledRun& run) {
  return run.label_in_network + ", " + counted(run.run->ranks, "rank");
}

int64_t peak_memory_bytes(const Run& run) {
  if (!run.resources || run.resources->peak_memory_bytes.empty()) return 0;
  return std::ranges::max(run.resources->peak_memory_bytes);
}

std::optional<double> shown_speedup(const Run& run) {
  return run.stated_speedup ? run.stated_speedup : run.speedup;
}

}  // namespace lockstep::results
