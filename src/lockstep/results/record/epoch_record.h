#pragma once

#include <cstdint>
#include <optional>

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
  static void describe(Fields& fields, Self& self) {
    LOCKSTEP_FIELDS(kRequired, epoch, steps, learning_rate);
    fields("loss", self.loss, {.missing_is_nan = true});
    LOCKSTEP_FIELDS(kOptional, training_accuracy, evaluation_loss, evaluation_accuracy, images_per_s);
  }

  bool operator==(const EpochRecord&) const = default;
};

}  // namespace lockstep::results
