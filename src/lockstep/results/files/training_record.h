#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/fields.h"

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
  static void describe(Fields& fields, Self& epoch) {
    fields("epoch", epoch.epoch, kRequired);
    fields("steps", epoch.steps, kRequired);
    fields("learning_rate", epoch.learning_rate, kRequired);
    fields("loss", epoch.loss, {.missing_is_nan = true});
    fields("training_accuracy", epoch.training_accuracy);
    fields("evaluation_loss", epoch.evaluation_loss);
    fields("evaluation_accuracy", epoch.evaluation_accuracy);
    fields("images_per_s", epoch.images_per_s);
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

/// The head of the table that a training prints as it goes, and a line of it, each with its end.
std::string epochs_head();
std::string epoch_line(const EpochRecord& epoch);

}  // namespace lockstep::results
