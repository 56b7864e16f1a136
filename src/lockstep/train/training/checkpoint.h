#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/replica/parameters.h"
#include "lockstep/replica/state.h"
#include "lockstep/results/files/training_record.h"
#include "lockstep/train/rows/fingerprint.h"
#include "lockstep/train/training/evaluation.h"

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

/// A training between two steps: all that is needed to resume it with the same bits. Random numbers need no
/// state of their own: they follow from the seed and the step (replica/random.h).
struct Checkpoint {
  /// Properties that must be the same to resume.
  Fingerprint settings;
  /// Properties that may differ, but decide how sums are rounded.
  Fingerprint circumstances;
  int64_t step = 0;
  std::vector<results::EpochRecord> epochs;
  /// Parameters and rank 0's buffers by torchvision's names.
  std::vector<replica::NamedTensor> model;
  /// [rank]. A strategy's state that is the same on all ranks is stored once and copied when reading.
  std::vector<RankState> ranks;
};

/// Gathers the states of the ranks and writes the checkpoint on rank 0; at any moment `path` is the old file
/// or the whole new one. `head`: settings, circumstances, step and epochs. The file is a dictionary that
/// Python's torch.load(path, weights_only=True) reads; docs/training.md describes it. The same training gives
/// the same bytes. Collective over `group`, null for one rank. Throws Error, on rank 0, if it cannot be
/// written.
void write_checkpoint(const std::string& path, const Checkpoint& head, const replica::Parameters& parameters,
                      const RankState& own, comm::Communicator* group);

/// Throws ConfigError for a file that is cut off, differs in a bit from what was written, or is not a
/// checkpoint of lockstep.
Checkpoint read_checkpoint(const std::string& path);

}  // namespace lockstep::train
