#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::network_file {

/// A tensor of a recorded training whose gradient is one: a parameter, or where only buckets are known, the
/// gradients of a bucket.
struct RecordedGradient {
  int64_t elements = 0;
  /// The share of the backward pass after which it was final.
  double ready = 1;
};

/// The phases of one rank in one recorded step: seconds of RecordedTraining::on_processor's clock.
struct RecordedStep {
  /// Input, forward, and all that is no other phase.
  double before_s = 0;
  double backward_s = 0;
  /// Time of an optimizer that is not lockstep's own.
  double optimizer_s = 0;
};

/// The knowledge of a result file with which a training can be replayed.
struct RecordedTraining {
  std::string path;
  /// The network's name in the file.
  std::string name;
  std::string unit;
  /// Samples of a rank in a step, in which a replay has one backward pass.
  int64_t batch = 1;
  /// In the order in which they became final.
  std::vector<RecordedGradient> gradients;
  /// [rank][step]; every rank has as many.
  std::vector<std::vector<RecordedStep>> ranks;
  /// Times are those that a processor computed; otherwise a GPU did, and they are those that passed.
  bool on_processor = true;
};

/// Reads the training of a result file: its row with a breakdown in which gradients or buckets are known, of
/// one network, strategy and batch that with the most ranks. Throws Error that names the file unless there is
/// exactly one.
RecordedTraining read_recorded_training(const std::string& path);

}  // namespace lockstep::network_file
