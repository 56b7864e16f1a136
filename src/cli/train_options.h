#pragma once

#include <optional>
#include <string>

#include "lockstep/train/job/job_options.h"
#include "lockstep/train/job/job_site.h"
#include "lockstep/train/training/training.h"

#include "flags.h"

namespace lockstep::cli {

/// The flags of `lockstep train`.
struct TrainOptions {
  TrainOptions();

  /// The row to train: every list has one element, or none for what the network, the device or the launcher
  /// suggests. An empty input is dataset with --data, otherwise device.
  train::SweepOptions sweep;
  /// Holds the learning rate, in place of the row's.
  train::ScheduleOptions schedule;
  std::string decay = "constant";
  std::optional<int> steps_per_epoch;
  bool evaluate = false;
  std::string checkpoint_path;
  /// "epoch", or a number of steps; empty: epoch.
  std::string checkpoint_every;
  std::string resume_path;
  std::string init_path;
  std::string json_path;
  bool dry_run = false;
  bool quiet = false;
  train::JobOptions job;
};

void add_train_flags(Flags& flags, TrainOptions& options);

/// The training that the flags describe, without circumstances. Throws ConfigError for one that cannot be.
train::TrainingPlan make_training_plan(const TrainOptions& options, const train::JobSite& site);

}  // namespace lockstep::cli
