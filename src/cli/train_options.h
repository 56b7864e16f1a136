#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "lockstep/train/training/training.h"

#include "rank_job.h"

namespace lockstep::cli {

/// Everything that `lockstep train` is told.
struct TrainOptions {
  /// One network, strategy, batch and number of ranks; lists have one element.
  train::SweepOptions sweep;
  std::string model = "resnet50";
  /// Empty: dataset with data, otherwise device.
  std::string input;
  std::string strategy = "ddp";
  std::string precision = "fp32";
  /// Empty: what bench takes.
  std::string kernels;
  double bucket_mb = 25;
  std::optional<int> batch;
  std::optional<int> global_batch;
  std::optional<int> ranks;
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
  RankOptions job;
};

void add_train_flags(CLI::App& command, TrainOptions& options);

/// Throws ConfigError for what cannot be. `ranks`: where none are given. `device`: what --device leaves.
train::TrainingPlan make_training_plan(const TrainOptions& options, int ranks, const std::string& device);

}  // namespace lockstep::cli
