#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "lockstep/train/sweep.h"

namespace lockstep::cli {

/// Everything that `lockstep bench` is told.
struct BenchOptions {
  train::SweepOptions sweep;
  std::string launch = "auto";
  std::string bind = "core";
  std::string interface;
  int threads = 0;
  double timeout_s = 30;
  std::string json_path;
  std::string csv_path;
  bool dry_run = false;
  bool quiet = false;
};

/// Adds the flags of `bench` to its subcommand. Values are checked by train::plan_rows and check_options, so
/// that every refusal names the flag and the nearest names.
void add_bench_flags(CLI::App& command, BenchOptions& options);

/// What does not concern the rows: threads, time-outs, ways to launch. Throws ConfigError.
void check_options(const BenchOptions& options);

/// That the files can be written. Throws ConfigError.
void check_files(const BenchOptions& options);

}  // namespace lockstep::cli
