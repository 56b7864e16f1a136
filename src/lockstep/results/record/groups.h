#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// The settings that a sweep may vary beside model, batch and ranks.
inline std::vector<std::reference_wrapper<const Setting>> attributes() {
  std::vector<std::reference_wrapper<const Setting>> found;
  for (const Setting& setting : kSettings) {
    if (setting.is_attribute()) found.emplace_back(setting);
  }
  return found;
}

/// The attributes whose text is not the same for all of these runs.
std::vector<const Setting*> varying(const std::vector<const Run*>& runs);

/// All runs of a model and batch (of a rank or of the whole job), in the order of the record.
struct ModelGroup {
  std::string model;
  /// The first run's; under strong scaling the others have other batches per rank.
  int batch_per_rank = 0;
  /// 0: weak scaling.
  int global_batch = 0;
  /// Runs of the strategies that were asked for, and those that are there to be compared with.
  std::vector<const Run*> runs;
  std::vector<const Run*> controls;
};

/// "batch size 32", or "global batch size 64" under strong scaling.
std::string batch_text(const ModelGroup& group);

/// Pointers into `record`.
std::vector<ModelGroup> group_by_model(const RunRecord& record);

/// Runs that differ in nothing but their number of ranks, in the order of their first one, each by ascending
/// ranks.
std::vector<std::vector<const Run*>> group_by_attributes(const std::vector<const Run*>& runs);

}  // namespace lockstep::results
