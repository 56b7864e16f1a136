#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/fields.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/replica/parameters.h"
#include "lockstep/replica/state.h"
#include "lockstep/results/record/training_record.h"
#include "lockstep/train/rows/fingerprint.h"
#include "lockstep/train/training/evaluation.h"
#include "lockstep/train/training/tensor_file.h"

namespace lockstep::train {

/// The state of one rank in the middle of a training, beyond the parameters.
struct RankState {
  /// Running statistics, by name.
  replica::State buffers;
  /// The state that Strategy::save stores.
  replica::State strategy;
  /// Sums over the steps of the current epoch.
  Tally epoch;
};

/// A training between two steps, without its tensors. Random numbers need no state of their own: they follow
/// from the seed and the step (replica/random.h).
struct CheckpointHead {
  /// Properties that must be the same to resume.
  Fingerprint settings;
  /// Properties that may differ, but decide how sums are rounded.
  Fingerprint circumstances;
  int64_t step = 0;
  std::vector<results::EpochRecord> epochs;
  /// Sums of the current epoch, by rank.
  std::vector<Tally> ranks;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    fields("step", self.step, kAtLeastOne);
    LOCKSTEP_FIELDS(kRequired, settings, circumstances, epochs, ranks)
  }
};

/// A checkpoint that was opened: all that is needed to resume a training with the same bits.
class Checkpoint {
 public:
  /// Throws ConfigError for a file that is cut off, differs in a bit from the one that was written, or is not
  /// a checkpoint of lockstep.
  explicit Checkpoint(const std::string& path);

  const CheckpointHead& head() const { return head_; }
  /// Parameters and rank 0's buffers by torchvision's names.
  std::vector<replica::NamedTensor> model() const;
  RankState rank(int rank) const;

 private:
  TensorFile file_;
  CheckpointHead head_;
};

/// Gathers the states of the ranks and writes the checkpoint on rank 0; at any moment `path` is the old file
/// or the whole new one. `head`: all but the ranks. docs/training.md describes the file. The same training
/// gives the same bytes. Collective over `group`, null for one rank. Throws Error, on rank 0, if it cannot be
/// written.
void write_checkpoint(const std::string& path, CheckpointHead head, const replica::Parameters& parameters,
                      const RankState& own, comm::Communicator* group);

}  // namespace lockstep::train
