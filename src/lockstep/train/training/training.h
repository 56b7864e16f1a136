#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/progress.h"
#include "lockstep/results/record/training_record.h"
#include "lockstep/train/rows/fingerprint.h"
#include "lockstep/train/rows/rank_group.h"
#include "lockstep/train/rows/sweep.h"
#include "lockstep/train/training/checkpoint.h"
#include "lockstep/train/training/schedule.h"

namespace lockstep::train {

/// A training, as `lockstep train` describes it.
struct TrainingPlan {
  /// Network, ranks, batch, strategy and input. Its learning rate is not used: the schedule has it.
  RowPlan row;
  ScheduleOptions schedule;
  int64_t steps_per_epoch = 1;
  /// A description of real data (look_at_input). A resumed training must have the same data, wherever the
  /// files are.
  std::string data;
  /// Whether every epoch ends with an evaluation.
  bool evaluate = false;
  /// File for checkpoints, written every `checkpoint_every` steps (0: after every epoch) and at the end;
  /// empty: none.
  std::string checkpoint_path;
  int64_t checkpoint_every = 0;
  /// The checkpoint to resume from; empty: none.
  std::string resume_path;
  /// Properties that may differ when the training is resumed, although sums are then rounded differently.
  Fingerprint circumstances;
  /// File with the initial values; empty: drawn from the seed.
  std::string init_path;
  /// Ends the training after this many steps in all, with a checkpoint if there is a file for it.
  std::optional<int64_t> stop_after;
};

/// Throws ConfigError for several ranks whose strategy combines nothing.
void check_combines(const std::string& strategy, int ranks);

/// Throws ConfigError for a plan that is impossible: a strategy that combines nothing, values that a schedule
/// does not take, flags that exclude each other.
void check_plan(const TrainingPlan& plan);

/// Everything that must be the same to resume a training with the same bits. Includes the number of epochs if
/// the learning rate depends on it.
Fingerprint settings_of(const TrainingPlan& plan);

/// Properties that the ranks of a job must have in common, including the names of the files.
Fingerprint fingerprint_of(const TrainingPlan& plan);

/// Gives the plan the kernels of the checkpoint that it resumes from. Throws ConfigError for a file that is
/// none.
void take_kernels_of_checkpoint(TrainingPlan& plan);

/// The checkpoint that the plan resumes from. Throws ConfigError, saying what differs, if it is of another
/// training.
Checkpoint read_checkpoint_of(const TrainingPlan& plan);

/// How the circumstances differ from the checkpoint's; empty if they do not.
std::string changed_circumstances(const TrainingPlan& plan, const CheckpointHead& head);

/// The results of a training.
struct TrainingResult {
  std::vector<results::EpochRecord> epochs;
  std::optional<int64_t> resumed_at_step;
  /// Hash of all parameters' bits; the same on all ranks.
  uint64_t parameters_hash = 0;
};

/// Called on every rank after each epoch with all epochs so far.
using OnEpoch = std::function<void(const std::vector<results::EpochRecord>& epochs)>;

/// Called on every rank of a resumed training, as it begins.
using OnResume = std::function<void(const CheckpointHead& head)>;

/// Trains. Collective over `ranks`, each of which reads the files that the plan names. Throws ConfigError on
/// all ranks if a file is of another network or training, or if the ranks have read different ones.
TrainingResult train(const TrainingPlan& plan, const RankGroup& ranks, launch::Progress& progress,
                     const OnEpoch& on_epoch, const OnResume& on_resume = {});

}  // namespace lockstep::train
