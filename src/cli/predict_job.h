#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/json_codec.h"
#include "lockstep/measure/interval.h"
#include "lockstep/predict/jobs/job_model.h"
#include "lockstep/results/record/run_record.h"
#include "lockstep/results/tables/document.h"
#include "lockstep/results/tables/row_tables.h"

#include "flags.h"

namespace lockstep::cli {

/// The flags of `lockstep predict --verify`.
struct PredictVerifyOptions {
  bool wanted = false;
  int rounds = 3;
  double row_time_s = 10;
  bool dry_run = false;
};

/// The effect of a change as it was predicted, beside the one that was measured.
struct VerifiedChange {
  std::string change;
  double predicted_gain = 0;
  /// The bench that measures it; empty where it cannot run here.
  std::vector<std::string> command;
  /// "cannot run here: ..." or how its launch failed; empty: it ran.
  std::string missing;
  /// Over the rate of the unchanged job, minus 1; empty: no pair of launches was measured.
  std::optional<double> gain;
  /// The 95 % interval of `gain`; empty with fewer than two pairs.
  std::optional<measure::Interval> gain_interval;
  /// The whole job's rate, mean over the launches.
  double images_per_s = 0;
};

/// The unchanged job, and changes of it, in launches in turn.
struct Verification {
  std::vector<std::string> command;
  double predicted_images_per_s = 0;
  double images_per_s = 0;
  /// Whole rounds: a launch of the unchanged job and of each change.
  int rounds = 0;
  std::vector<VerifiedChange> changes;
  std::optional<int> interrupted_by;
};

/// A gain of less in either direction counts as none, predicted or measured.
inline constexpr double kNoGain = 0.01;
/// A prediction that is off by less counts as met.
inline constexpr double kMetGain = 0.05;

bool has_right_sign(const VerifiedChange& change);
bool is_met(const VerifiedChange& change);

/// Launches the job of `scenario` and each of `effects` that this machine can run, in rounds whose order is
/// reversed each time; with dry_run none. A signal ends it, and leaves what was measured. `path` is the file
/// of `record`, whose network is replayed where it was recorded or is not at hand. Throws ConfigError or
/// BackendMissing where the unchanged job cannot run here, Error where a launch of it failed.
Verification verify_effects(const PredictVerifyOptions& options, const results::RunRecord& record,
                            const std::string& path, const predict::JobModel& model,
                            const predict::Scenario& scenario,
                            const std::vector<predict::ChangeEffect>& effects);

/// The table of predicted and measured gains, and how many of these agree; of a dry run the commands.
results::Document document_of(const Verification& verification);

Json json_of(const Verification& verification);

/// The flags of `lockstep predict RUN.json`.
struct PredictJobOptions {
  std::string record;
  /// Empty: powers of two up to 128, or to verify the measured number.
  std::vector<int> ranks;
  std::optional<int> per_host;
  std::optional<int> global_batch;
  std::string network;
  std::string collectives;
  std::string model;
  std::string strategy;
  std::optional<int> batch;
  /// Changes with commas between; "usual" for a set of them, empty for none.
  std::string what_if;
  PredictVerifyOptions verify;
  std::optional<int> simulate;
  int steps = 100;
  uint64_t seed = 1;
  std::string slow_rank;
  std::string thin_link;
  std::optional<int> lose_host;
};

void add_predict_job_flags(Flags& flags, PredictJobOptions& options);

/// Predictions from a record in the file `path`: how the speed-ups of its jobs go on, to 8 times the largest
/// number of ranks measured; and what would help the job with the most ranks, or why that is not known.
struct Outlook {
  std::vector<std::vector<results::Forecast>> forecasts;
  results::Document help;
};
Outlook outlook_of(const results::RunRecord& record, const std::string& path);

/// Predicts the strategies of a record; prints tables, or with `json` writes that file. Returns the exit
/// code.
int run_predict_job(const PredictJobOptions& options, const std::string& json, bool markdown);

}  // namespace lockstep::cli
