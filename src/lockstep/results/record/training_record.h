#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/fields.h"
#include "lockstep/results/record/kernel_trial.h"

namespace lockstep::results {

/// Results of one epoch of a training.
struct EpochRecord {
  /// From 1 on.
  int epoch = 0;
  /// Steps of the training so far.
  int64_t steps = 0;
  /// The rate of its last step.
  double learning_rate = 0;
  /// Mean over the epoch's steps and all ranks.
  double loss = 0;
  /// The share of its samples that were recognised, each before the step that learned from it; empty for a
  /// network that tells its loss alone.
  std::optional<double> training_accuracy;
  /// After its last step; empty where nothing was evaluated.
  std::optional<double> evaluation_loss;
  std::optional<double> evaluation_accuracy;
  /// Rate of all ranks together, without evaluation and checkpoints; empty: the epoch was trained before the
  /// training was resumed.
  std::optional<double> images_per_s;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    LOCKSTEP_FIELDS(kRequired, epoch, steps, learning_rate);
    fields("loss", self.loss, {.missing_is_nan = true});
    LOCKSTEP_FIELDS(kOptional, training_accuracy, evaluation_loss, evaluation_accuracy, images_per_s);
  }

  bool operator==(const EpochRecord&) const = default;
};

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
  /// As RunRecord::kernel_trials.
  std::vector<KernelTrial> kernel_trials;
  /// By name, in words.
  std::vector<std::pair<std::string, std::string>> settings;
  /// Steps that the checkpoint had which was resumed from.
  std::optional<int64_t> resumed_at_step;
  std::vector<EpochRecord> epochs;
  /// A hash of all parameters' bits, where the training has ended.
  std::string parameters_hash;
  /// Why it has not; empty: it has.
  std::string incomplete;
  /// As Setup::unit.
  std::string unit = "image";

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    fields("lockstep", self.lockstep_version);
    fields("torch", self.torch_version);
    LOCKSTEP_FIELDS(kOptional, host, command, backend, launch, threads_per_rank, kernel_detail,
                    kernel_trials);
    fields.group("settings", [&](auto& settings) {
      for (auto& [name, value] : self.settings) settings(name.c_str(), value);
    });
    LOCKSTEP_FIELDS(kOptional, resumed_at_step, unit, epochs, parameters_hash, incomplete);
  }
};

}  // namespace lockstep::results
