#pragma once

#include <filesystem>
#include <optional>

#include "lockstep/train/job/job_plan.h"

#include "bench_options.h"

namespace lockstep::cli {

/// A bench as every rank knows it before the ranks meet; the same in all of them.
struct BenchPlan {
  BenchOptions options;
  /// The rows to measure, and the ranks that measure them.
  train::JobPlan job;
  BaselineChoice baseline;
  Arguments command;
  /// The file for the record at the end: the user's --json, or without one a file in a private folder, which
  /// is removed then.
  std::filesystem::path record_path;
  /// The place of the record while rows are measured (results::PartialFile::place_for).
  std::filesystem::path place;
  /// This launch among those of --repeat, counted from 1. Launches before the last only leave the record for
  /// the next one.
  int launch = 1;
  int launches = 1;
};

/// The plan of `lockstep bench` with these arguments ("lockstep", "bench", flags), for a command that starts
/// it. Empty where they asked for help, which is printed. Throws as bench does for what cannot be measured.
std::optional<BenchPlan> plan_bench(const Arguments& arguments);

/// Throws where a plan cannot run here, for want of a backend or of memory; prints which rows are left out,
/// and warnings.
void check_start(const BenchPlan& plan);

}  // namespace lockstep::cli
