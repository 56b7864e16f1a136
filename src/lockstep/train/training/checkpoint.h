#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/replica/parameters.h"
#include "lockstep/replica/state.h"
#include "lockstep/results/files/training_record.h"
#include "lockstep/train/training/evaluation.h"
#include "lockstep/train/rows/facts.h"

namespace lockstep::train {

/// What one rank has of its own in the middle of a training.
struct RankState {
  /// Running statistics, by name.
  replica::State buffers;
  /// Strategy::save.
  replica::State strategy;
  /// Of the epoch that runs, the losses of its steps summed.
  Tally epoch;
};

/// A training that was stopped between two steps: all that it takes to go on with the same bits. Random
/// numbers need no state of their own: they come from the seed and the step (replica/random.h).
struct Checkpoint {
  /// What must be the same to go on.
  Facts settings;
  /// What decides rounding beside them.
  Facts circumstances;
  int64_t step = 0;
  std::vector<results::EpochRecord> epochs;
  /// Parameters and rank 0's buffers by torchvision's names.
  std::vector<replica::NamedTensor> model;
  /// By rank. Where a strategy's state is the same on all ranks the first one's is everybody's.
  std::vector<RankState> ranks;
};

/// Gathers what the ranks have of their own and writes all of it on rank 0, so that `path` is the old file or
/// the whole new one at any moment. `head`: settings, step and epochs. The file is a dictionary that Python's
/// torch.load(path, weights_only=True) reads; docs/training.md describes it. The same training gives the same
/// bytes. Collective over `group`, null for one rank. Throws Error, on rank 0, when it cannot be written.
void write_checkpoint(const std::string& path, const Checkpoint& head, const replica::Parameters& parameters,
                      const RankState& own, comm::Communicator* group);

/// Throws ConfigError where it is cut off, a bit of it is not as it was written, or it is no checkpoint of
/// lockstep.
Checkpoint read_checkpoint(const std::string& path);

}  // namespace lockstep::train
