#include "lockstep/results/record/row_matching.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "lockstep/results/record/baseline.h"

namespace lockstep::results {
namespace {

using Texts = std::vector<std::string>;

/// Part of what a row is.
struct Setting {
  const char* name;
  /// Empty: the file does not say.
  std::string (*text)(const Run& run);
  /// Whether rows may be compared although they differ in it.
  bool may_change = true;
  /// Only rows whose ranks communicate have it.
  bool of_communication = false;
};

std::string known(int value) {
  return value > 0 ? fmt::format("{}", value) : "";
}

std::string options_or_none(const Run& run) {
  return run.strategy_options.empty() ? "none" : run.strategy_options;
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> kAll{
      {"strategy", [](const Run& run) { return run.strategy; }, true, true},
      {"backend", [](const Run& run) { return run.backend; }, true, true},
      {"bucket", [](const Run& run) { return run.tuning ? "tuned" : fmt::format("{} MB", run.bucket_mb); },
       true, true},
      {"strategy options", [](const Run& run) { return options_or_none(run); }, true, true},
      {"accumulation", [](const Run& run) { return fmt::format("{} batches", run.accumulate); }},
      {"precision", [](const Run& run) { return run.precision; }},
      {"kernels", [](const Run& run) { return run.kernels; }},
      {"memory format", [](const Run& run) { return run.memory_format; }},
      {"device", [](const Run& run) { return run.device; }},
      {"CUDA graph", [](const Run& run) { return std::string(run.cuda_graph ? "on" : "off"); }},
      {"input", [](const Run& run) { return run.input; }},
      {"data", [](const Run& run) { return run.data; }},
      {"input options",
       [](const Run& run) { return run.input_options.empty() ? "none" : run.input_options; }},
      {"threads per rank", [](const Run& run) { return known(run.threads_per_rank); }},
      {"hosts", [](const Run& run) { return known(run.hosts); }},
      // Another size is another work, as another batch is.
      {"image size", [](const Run& run) { return known(run.image_size); }, false},
  };
  return kAll;
}

bool has(const Setting& setting, const Run& run) {
  return !setting.of_communication || communicates(run);
}

/// What the rows of a file say of a setting.
std::set<std::string> values(const RunRecord& record, const Setting& setting) {
  std::set<std::string> found;
  for (const Run& run : record.runs) {
    if (!has(setting, run)) continue;
    if (std::string text = setting.text(run); !text.empty()) found.insert(std::move(text));
  }
  return found;
}

/// The settings that keep rows apart; those that do not but differ go to `changes`.
std::vector<const Setting*> deciding(const RunRecord& base, const RunRecord& test,
                                     std::vector<SettingChange>& changes) {
  std::vector<const Setting*> kept;
  for (const Setting& setting : settings()) {
    const std::set<std::string> of_base = values(base, setting);
    const std::set<std::string> of_test = values(test, setting);
    if (of_base.empty() || of_test.empty()) continue;
    const bool changed = of_base.size() == 1 && of_test.size() == 1 && of_base != of_test;
    if (changed && setting.may_change) {
      changes.push_back({setting.name, *of_base.begin(), *of_test.begin()});
    } else {
      kept.push_back(&setting);
    }
  }
  return kept;
}

Texts identity(const Run& run, const std::vector<const Setting*>& deciding) {
  // Strong scaling: the batch per rank follows from the number of ranks.
  Texts texts{run.model,
              run.global_batch > 0 ? fmt::format("global {}", run.global_batch)
                                   : fmt::format("{}", run.batch_per_rank),
              fmt::format("{}", run.ranks), communicates(run) ? "communicates" : run.strategy};
  for (const Setting* setting : deciding) texts.push_back(has(*setting, run) ? setting->text(run) : "");
  return texts;
}

}  // namespace

RowMatching match_rows(const RunRecord& base, const RunRecord& test) {
  RowMatching matching;
  const std::vector<const Setting*> kept = deciding(base, test, matching.changes);
  std::vector<bool> taken(test.runs.size());
  for (const Run& run : base.runs) {
    const Texts wanted = identity(run, kept);
    size_t found = 0;
    while (found < test.runs.size() && (taken[found] || identity(test.runs[found], kept) != wanted)) ++found;
    if (found == test.runs.size()) {
      matching.only_base.push_back(&run);
    } else {
      taken[found] = true;
      matching.rows.push_back({&run, &test.runs[found]});
    }
  }
  for (size_t i = 0; i < test.runs.size(); ++i) {
    if (!taken[i]) matching.only_test.push_back(&test.runs[i]);
  }
  // Where only rows without communication are common, its settings are nobody's.
  const bool any_communicates =
      std::ranges::any_of(matching.rows, [](const MatchedRow& row) { return communicates(*row.base); });
  if (!any_communicates) {
    std::erase_if(matching.changes, [](const SettingChange& change) {
      return std::ranges::any_of(settings(), [&](const Setting& setting) {
        return change.name == setting.name && setting.of_communication;
      });
    });
  }
  return matching;
}

}  // namespace lockstep::results
