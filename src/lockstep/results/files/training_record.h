#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/fields.h"
#include "lockstep/results/record/epoch_record.h"

namespace lockstep::results {

/// A training, as `lockstep train --json` writes it.
struct TrainingRecord {
  std::string lockstep_version;
  std::string torch_version;
  std::string host;
  std::vector<std::string> command;
  std::string backend;
  std::string launch;
  int threads_per_rank = 0;
  /// As RunRecord::kernel_detail.
  std::string kernel_detail;
  /// By name, in words.
  std::vector<std::pair<std::string, std::string>> settings;
  /// Steps that the checkpoint had which was resumed from.
  std::optional<int64_t> resumed_at_step;
  std::vector<EpochRecord> epochs;
  /// A hash of all parameters' bits, where the training has ended.
  std::string parameters_hash;
  /// Why it has not; empty: it has.
  std::string incomplete;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& record) {
    fields("lockstep", record.lockstep_version);
    fields("torch", record.torch_version);
    fields("host", record.host);
    fields("command", record.command);
    fields("backend", record.backend);
    fields("launch", record.launch);
    fields("threads_per_rank", record.threads_per_rank);
    fields("kernel_detail", record.kernel_detail);
    fields.group("settings", [&](auto& settings) {
      for (auto& [name, value] : record.settings) settings(name.c_str(), value);
    });
    fields("resumed_at_step", record.resumed_at_step);
    fields("epochs", record.epochs);
    fields("parameters_hash", record.parameters_hash);
    fields("incomplete", record.incomplete);
  }
};

/// As docs/training.md describes it. Numbers that are not finite or not there are null.
std::string to_json(const TrainingRecord& record);

}  // namespace lockstep::results
