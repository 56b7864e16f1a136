#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "lockstep/results/tables/render.h"
#include "lockstep/train/rows/sweep.h"

#include "rank_job.h"

namespace lockstep::cli {

/// Everything that `lockstep bench` is told.
struct BenchOptions {
  /// Settings of a published row, and what to tell the user of them.
  std::string preset;
  std::string preset_note;
  train::SweepOptions sweep;
  RankOptions ranks;
  /// Half the width of the interval at which a row has been measured enough, as text ("2%").
  std::string precision_target = "2%";
  bool breakdown = false;
  /// What the layers take, and what of a processor's limit a row reaches.
  bool layers = false;
  bool limit = false;
  /// How often everything is launched anew.
  int repeat = 1;
  /// What speed-ups are relative to: "single", "ddp:1".
  std::string baseline = "single";
  std::string json_path;
  /// Adds a launch to what --json names already holds.
  bool append = false;
  std::string csv_path;
  std::string trace_path;
  results::RenderOptions how;
  bool dry_run = false;
  bool quiet = false;
};

/// Adds the flags of `bench` to its subcommand. Values are checked by train::plan_rows and check_options, so
/// that every refusal names the flag and the nearest names.
void add_bench_flags(CLI::App& command, BenchOptions& options);

/// What concerns neither the rows nor how ranks come to be. Throws ConfigError.
void check_options(const BenchOptions& options);

/// --baseline in its parts; the number of ranks is 0 where none was given.
struct BaselineChoice {
  std::string strategy;
  int ranks = 0;
};

/// Throws ConfigError for a baseline that no row will be.
BaselineChoice choose_baseline(const BenchOptions& options, const std::vector<train::RowPlan>& rows);

/// What cannot be shown of a step on that device, or of a recorded one. Throws ConfigError.
void check_device_options(const BenchOptions& options, const std::string& device);

/// That the files can be written. Throws ConfigError.
void check_files(const BenchOptions& options);

}  // namespace lockstep::cli
