#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/progress.h"
#include "lockstep/results/files/training_record.h"
#include "lockstep/train/rows/facts.h"
#include "lockstep/train/rows/rank_group.h"
#include "lockstep/train/rows/sweep.h"
#include "lockstep/train/training/checkpoint.h"
#include "lockstep/train/training/schedule.h"

namespace lockstep::train {

/// What `lockstep train` is to do.
struct TrainingPlan {
  /// Network, ranks, batch, strategy and input; its learning rate is the schedule's.
  RowPlan row;
  ScheduleOptions schedule;
  int64_t steps_per_epoch = 1;
  /// Real data in words (look_at_input): they, not where they lie, are what a training goes on with.
  std::string data;
  /// Whether every epoch ends with an evaluation.
  bool evaluate = false;
  /// Where a checkpoint is written, every so many steps (0: after every epoch) and at the end; empty:
  /// nowhere.
  std::string checkpoint_path;
  int64_t checkpoint_every = 0;
  /// The checkpoint to go on from; empty: none.
  std::string resume_path;
  /// What may differ when it goes on, but then sums may be rounded otherwise.
  Facts circumstances;
  /// The file whose values the training begins with; empty: those drawn from the seed.
  std::string init_path;
  /// Ends the training after so many steps of all, with a checkpoint where these are written.
  std::optional<int64_t> stop_after;
};

/// Throws ConfigError for a plan that cannot be: a strategy whose replicas go their own ways, values that a
/// schedule does not take.
void check_plan(const TrainingPlan& plan);

/// All that has to be the same for a training to go on with the same bits, in words. The number of epochs is
/// among it where the rate depends on it.
Facts settings_of(const TrainingPlan& plan);

/// What the ranks of a job must have in common, the files among it.
Facts facts_of(const TrainingPlan& plan);

/// The checkpoint that the plan resumes from; throws ConfigError where it is of another training, saying what
/// differs.
Checkpoint read_checkpoint_of(const TrainingPlan& plan);

/// How the circumstances differ from those of the checkpoint; empty where they do not.
std::string changed_circumstances(const TrainingPlan& plan, const Checkpoint& checkpoint);

/// What became of a training.
struct TrainingResult {
  std::vector<results::EpochRecord> epochs;
  std::optional<int64_t> resumed_at_step;
  /// Of all parameters' bits; the same on all ranks.
  uint64_t parameters_hash = 0;
};

/// Called on every rank after each epoch with all epochs so far.
using OnEpoch = std::function<void(const std::vector<results::EpochRecord>& epochs)>;

/// Trains. Collective over `ranks`; every rank of it reads the
/// files that the plan names. Throws ConfigError on all ranks where a file is of another network or training,
/// or the ranks have read different ones.
TrainingResult train(const TrainingPlan& plan, const RankGroup& ranks, launch::Progress& progress,
                     const OnEpoch& on_epoch);

}  // namespace lockstep::train
