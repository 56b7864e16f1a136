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
  static void describe(Fields& fields, Self& self) {
    fields("lockstep", self.lockstep_version);
    fields("torch", self.torch_version);
    LOCKSTEP_FIELDS(kOptional, host, command, backend, launch, threads_per_rank, kernel_detail);
    fields.group("settings", [&](auto& settings) {
      for (auto& [name, value] : self.settings) settings(name.c_str(), value);
    });
    LOCKSTEP_FIELDS(kOptional, resumed_at_step, epochs, parameters_hash, incomplete);
  }
};

/// As docs/training.md describes it. Numbers that are not finite or not there are null.
std::string to_json(const TrainingRecord& record);

}  // namespace lockstep::results
