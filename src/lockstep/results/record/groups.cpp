#include "lockstep/results/record/groups.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/results/record/baseline.h"

namespace lockstep::results {
namespace {

/// Compared by text, so that all rows with tuned buckets are alike whatever was found for each.
bool same_attributes(const Run& a, const Run& b) {
  return std::ranges::all_of(
      attributes(), [&](const Setting& attribute) { return attribute.text(a) == attribute.text(b); });
}

}  // namespace

std::vector<const Setting*> varying(const std::vector<const Run*>& runs) {
  std::vector<const Setting*> found;
  for (const Setting& attribute : attributes()) {
    const bool varies = std::ranges::any_of(
        runs, [&](const Run* run) { return attribute.text(*run) != attribute.text(*runs.front()); });
    if (varies) found.push_back(&attribute);
  }
  return found;
}

std::string batch_text(const ModelGroup& group) {
  if (group.global_batch > 0) return fmt::format("global batch size {}", group.global_batch);
  return fmt::format("batch size {}", group.batch_per_rank);
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

}  // namespace lockstep::results
