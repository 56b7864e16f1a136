#include "lockstep/results/tables/labels.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/units.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/row_tables.h"

namespace lockstep::results {
namespace {

/// "batch 32", or "batch 64 in all" under strong scaling.
std::string batch_label(const Run& run) {
  return run.global_batch > 0 ? fmt::format("batch {} in all", run.global_batch)
                              : fmt::format("batch {}", run.batch_per_rank);
}

bool is_batch(const Setting* setting) {
  return setting != nullptr && setting->member == Setting::Member(&Setup::batch_per_rank);
}

/// All settings of a run except its number of ranks, or the one `across`. An unfinished run stands for no
/// other of its settings.
std::string curve_key(const Run& run, const Setting* across) {
  std::string key = fmt::format("{}\n{}\n{}", run.model, run.strategy, run.finished());
  if (across != nullptr) key += fmt::format("\n{}", run.ranks);
  if (!is_batch(across)) key += "\n" + batch_label(run);
  for (const Setting& attribute : attributes()) {
    const bool concerned = !attribute.has(Setting::kOfCommunication) || communicates(run);
    if (concerned && &attribute != across) key += "\n" + attribute.text(run);
  }
  return key;
}

/// Strategy, ranks, batch, other settings and record, as far as they vary.
std::string label_of(const LabelledRun& labelled, const std::vector<const Setting*>& varied, bool with_ranks,
                     bool with_batch, const std::string& record) {
  const Run& run = *labelled.run;
  std::string label = run.strategy.empty() ? "?" : run.strategy;
  if (labelled.control) label += " (control)";
  if (!run.finished()) label += fmt::format(" ({})", kUnfinished);
  if (with_ranks) label += ", " + counted(run.ranks, "rank");
  if (with_batch) label += ", " + batch_label(run);
  label += settings_text(run, varied);
  return record.empty() ? label : label + ", " + record;
}

}  // namespace

std::vector<std::string> display_names(const std::vector<std::string>& paths) {
  std::map<std::string, int> count, given;
  const auto short_name = [](const std::string& path) { return std::filesystem::path(path).stem().string(); };
  for (const std::string& path : paths) ++count[short_name(path)];
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    // Two files of one name in different folders keep their paths.
    names.push_back(count[short_name(path)] > 1 ? path : short_name(path));
    if (const int number = ++given[path]; number > 1) names.back() += fmt::format(" ({})", number);
  }
  return names;
}

bool all_published(std::span<const NamedRecord> records) {
  return !records.empty() && std::ranges::all_of(records, [](const NamedRecord& named) {
    return named.record.source == kPublished;
  });
}

bool all_trainings(std::span<const NamedRecord> records) {
  return !records.empty() && std::ranges::all_of(records, [](const NamedRecord& named) {
    return named.record.training.has_value();
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

std::vector<LabelledRun> labelled_runs(std::span<const NamedRecord> records, const Setting* across) {
  std::vector<LabelledRun> runs;
  if (records.size() > 1 && all_published(records)) {
    // Publications differ in more settings than a label holds: each is labelled by itself.
    for (size_t record = 0; record < records.size(); ++record) {
      for (LabelledRun& run : labelled_runs(records.subspan(record, 1), across)) {
        run.record = record;
        run.curve = fmt::format("{}\n{}", record, run.curve);
        run.label = fmt::format("{}: {}", records[record].name, run.label);
        run.label_in_network = fmt::format("{}: {}", records[record].name, run.label_in_network);
        runs.push_back(std::move(run));
      }
    }
    return runs;
  }
  // A label has varying settings only.
  std::vector<const Run*> all;
  std::set<std::string> models, batches;
  std::set<int> ranks;
  for (size_t record = 0; record < records.size(); ++record) {
    for (const Run& run : records[record].record.runs) {
      runs.push_back({.run = &run,
                      .record = record,
                      .control = is_control(records[record].record, run),
                      .curve = fmt::format("{}\n{}", record, curve_key(run, across))});
      models.insert(run.model);
      batches.insert(batch_label(run));
      if (!runs.back().control) ranks.insert(run.ranks);
      all.push_back(&run);
    }
  }
  std::vector<const Setting*> varied = varied_settings(all);
  std::erase_if(varied, [&](const Setting* setting) {
    // A record that lacks a setting does not differ in it.
    std::set<std::string> known;
    for (const Run* run : all) known.insert(setting->text(*run));
    known.erase("");
    // Images of one size in each network are the network's.
    std::set<std::pair<std::string, std::string>> by_model;
    for (const Run* run : all) by_model.emplace(run->model, setting->text(*run));
    const bool of_model = setting->has(Setting::kFixed) && by_model.size() == models.size();
    return setting == across || known.size() < 2 || of_model;
  });
  for (LabelledRun& run : runs) {
    run.label_in_network =
        label_of(run, varied, across != nullptr && ranks.size() > 1, batches.size() > 1 && !is_batch(across),
                 records.size() > 1 ? records[run.record].name : "");
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

std::string unit_of(const Sources& sources) {
  std::set<std::string> units;
  for (const NamedRecord& named : sources.records) {
    for (const Run& run : named.record.runs) units.insert(run.unit);
  }
  return units.empty() ? "image" : units.size() == 1 ? *units.begin() : "unit";
}

std::optional<double> shown_speedup(const Run& run) {
  return run.stated_speedup ? run.stated_speedup : run.speedup;
}

}  // namespace lockstep::results
