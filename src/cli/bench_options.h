#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/base/registry.h"
#include "lockstep/results/tables/tables.h"
#include "lockstep/train/job/job_plan.h"
#include "lockstep/train/rows/sweep.h"

#include "flags.h"
#include "kept_record.h"

namespace lockstep::cli {

/// The flags of `lockstep bench`.
struct BenchOptions {
  /// A published row whose settings to use.
  std::string preset;
  train::SweepOptions sweep;
  train::JobOptions job;
  /// In MiB, of a rank; absent: none.
  std::optional<double> memory_limit_mb;
  bool breakdown = false;
  /// Launches, each of all rows.
  int repeat = 1;
  /// The row that speed-ups are relative to: "single", "ddp:1".
  std::string baseline = results::kSingle;
  std::string json_path;
  /// Adds a launch to the launches in --json.
  bool append = false;
  std::string csv_path;
  std::string trace_path;
  /// Replaces files that are no results.
  bool force = false;
  results::RenderOptions how;
  bool dry_run = false;
  bool quiet = false;
};

/// Names are checked when the rows and the job are planned, not here.
void add_bench_flags(Flags& flags, BenchOptions& options);

// Refusals, in the order in which they are reported. Between the first two lists the job's options are
// settled (train/job/job_site.h), after the second the rows are planned (train/rows/sweep.h), then the job
// (train/job/job_plan.h).

/// Checks the flags that concern neither the rows nor the job. Throws ConfigError.
void check_flags(const BenchOptions& options);

/// Checks the flags against this device and this launcher. Throws ConfigError.
void check_on_site(const BenchOptions& options, const train::JobSite& site);

/// --baseline in its parts; `ranks` is 0 if not given.
struct BaselineChoice {
  std::string strategy;
  int ranks = 0;
};

/// Throws ConfigError for a baseline that is not among `rows`.
BaselineChoice choose_baseline(const BenchOptions& options, const std::vector<train::RowPlan>& rows);

/// The files that the user asked for.
std::vector<GivenFile> outputs_of(const BenchOptions& options);

/// Throws ConfigError for an output file that cannot be written, or that is not to be lost.
void check_files(const BenchOptions& options);

/// A bench as every rank knows it before the ranks meet; the same in all of them.
struct BenchPlan {
  BenchOptions options;
  /// The rows to measure, and the ranks that measure them.
  train::JobPlan job;
  /// Rows over --memory-limit, in words.
  std::vector<std::string> over_memory_limit;
  BaselineChoice baseline;
  Arguments command;
  /// The record while rows are measured; empty in a launcher's ranks other than 0, which learn it from that.
  std::optional<KeptRecord> kept;
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

/// The settings of one published row as flags of `lockstep bench`.
struct Preset {
  /// The publication of the row.
  std::string source;
  /// "--model resnet50 --batch 32 ...": flags that take one value each.
  std::string flags;
  /// How lockstep differs from the source, in words.
  std::vector<std::string> differences;
};

/// All presets by name.
const Registry<Preset>& presets();

/// Sets the flags of the preset `name`, except those that the user gave or settled by another flag
/// (--global-batch for --batch; --max-time or --precision-target for --steps and --warmup), and those that
/// the chosen strategies do not have. Returns a text for the user. `flags` are `bench`'s after parsing,
/// `sweep` where they store. Throws ConfigError for an unknown name.
std::string apply_preset(const std::string& name, Flags& flags, const train::SweepOptions& sweep);

}  // namespace lockstep::cli
