#include "lockstep/results/record/row_matching.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace lockstep::results {
namespace {

using Texts = std::vector<std::string>;

bool has(const Setting& setting, const Run& run) {
  return !setting.has(Setting::kOfCommunication) || communicates(run);
}

/// Whether the setting keeps rows of two files apart, beside the settings of identity() below.
bool decides(const Setting& setting) {
  return setting.is_attribute() || setting.has(Setting::kPlacement);
}

/// The values of a setting in the rows of a file.
std::set<std::string> values(const RunRecord& record, const Setting& setting) {
  std::set<std::string> found;
  for (const Run& run : record.runs) {
    if (!run.finished() || !has(setting, run)) continue;
    if (std::string text = setting.text(run); !text.empty()) found.insert(std::move(text));
  }
  return found;
}

/// The settings that keep rows apart; the others that differ go to `changes`.
std::vector<const Setting*> deciding(const RunRecord& base, const RunRecord& test,
                                     std::vector<SettingChange>& changes) {
  std::vector<const Setting*> kept;
  for (const Setting& setting : kSettings) {
    if (!decides(setting)) continue;
    const std::set<std::string> of_base = values(base, setting);
    const std::set<std::string> of_test = values(test, setting);
    if (of_base.empty() || of_test.empty()) continue;
    const bool changed = of_base.size() == 1 && of_test.size() == 1 && of_base != of_test;
    if (changed && !setting.has(Setting::kFixed)) {
      changes.push_back({setting.name, *of_base.begin(), *of_test.begin()});
    } else {
      kept.push_back(&setting);
    }
  }
  return kept;
}

/// Whether two runs train the same network on the same batch, as far as that is known.
bool same_training(const Run& a, const Run& b, bool as_same) {
  const bool recorded = a.recorded || b.recorded;
  if (recorded && as_same) return true;
  // Strong scaling: the batch per rank follows from the number of ranks.
  const bool same_batch =
      a.global_batch == b.global_batch && (a.global_batch > 0 || a.batch_per_rank == b.batch_per_rank);
  if (!recorded) return same_batch && a.model == b.model;
  if (!same_batch && a.batch_is_known() && b.batch_is_known()) return false;
  if (a.model != kUnnamed && b.model != kUnnamed) return a.model == b.model;
  return a.parameters > 0 && a.parameters == b.parameters && a.parameter_tensors == b.parameter_tensors &&
         a.largest_parameter == b.largest_parameter;
}

/// The key of a row: rows of two files that train the same match where it is equal.
Texts identity(const Run& run, const std::vector<const Setting*>& deciding) {
  Texts texts{fmt::format("{}", run.ranks), communicates(run) ? "communicates" : run.strategy};
  for (const Setting* setting : deciding) texts.push_back(has(*setting, run) ? setting->text(run) : "");
  return texts;
}

}  // namespace

RowMatching match_rows(const RunRecord& base, const RunRecord& test, bool as_same) {
  RowMatching matching;
  const std::vector<const Setting*> kept = deciding(base, test, matching.changes);
  std::vector<bool> taken(test.runs.size());
  for (size_t i = 0; i < test.runs.size(); ++i) {
    if (test.runs[i].finished()) continue;
    taken[i] = true;
    matching.unfinished_test.push_back(&test.runs[i]);
  }
  for (const Run& run : base.runs) {
    if (!run.finished()) {
      matching.unfinished_base.push_back(&run);
      continue;
    }
    const Texts wanted = identity(run, kept);
    size_t found = 0;
    const auto matches = [&](const Run& other) {
      return same_training(run, other, as_same) && identity(other, kept) == wanted;
    };
    while (found < test.runs.size() && (taken[found] || !matches(test.runs[found]))) ++found;
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
  // Settings of communication mean nothing when no common row communicates.
  const bool any_communicates =
      std::ranges::any_of(matching.rows, [](const MatchedRow& row) { return communicates(*row.base); });
  if (!any_communicates) {
    std::erase_if(matching.changes, [](const SettingChange& change) {
      return std::ranges::any_of(kSettings, [&](const Setting& setting) {
        return change.name == setting.name && setting.has(Setting::kOfCommunication);
      });
    });
  }
  return matching;
}

}  // namespace lockstep::results
