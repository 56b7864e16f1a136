#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/launch/guarded_folder.h"
#include "lockstep/measure/compare.h"
#include "lockstep/results/tables/diff.h"

#include "bench_launcher.h"

namespace lockstep::cli {

/// The private folder of a comparison in turns: the result files of both sides, and the output of their
/// launches.
class TurnFolder {
 public:
  /// `keep`: --keep; empty: nothing is kept. Throws ConfigError where it cannot be made, and where it holds
  /// an earlier comparison, unless `force`, which replaces that.
  TurnFolder(const std::string& keep, bool force);

  std::filesystem::path base() const { return folder() / "base.json"; }
  std::filesystem::path test() const { return folder() / "test.json"; }
  std::filesystem::path log() const { return folder() / "launches.log"; }
  const std::filesystem::path& folder() const { return folder_.path(); }
  /// Copies the files into the folder of --keep, if there is one. Returns the reason where it cannot.
  Trouble save() const;

 private:
  launch::GuardedFolder folder_;
  std::filesystem::path kept_;
};

struct TurnOptions {
  TurnSide base;
  TurnSide test;
  /// Without the confidence, which follows from the looks.
  results::DiffOptions how;
  size_t most_pairs = 64;
  double max_time_s = 1800;
  /// Receives the output of the launches.
  std::filesystem::path log;
  /// Called after every launch.
  std::function<void()> save;
};

/// Launches of two sides in the order base, test, test, base, ..., until each row is certain or a limit is
/// reached. Prints a note for every launch, and on a terminal the current one.
class TurnRunner {
 public:
  explicit TurnRunner(TurnOptions options);

  /// Throws Error with the output of a launch that failed, and ConfigError or BackendMissing as the launch
  /// would. turns() and diff() have all measurements in any case.
  void run();

  /// The numbers of launches, and the reason for the end.
  const results::Turns& turns() const { return turns_; }
  /// The last comparison; empty where there was no pair of launches.
  const std::optional<results::Diff>& diff() const { return diff_; }
  /// The signal that ended the comparison.
  std::optional<int> interrupted_by() const { return launcher_.interrupted_by(); }

 private:
  void take_turns();
  /// Returns false if a signal ended the launch.
  bool launch(const TurnSide& side);
  /// Throws Error where the launches of every row have too few steps for the percentile that decides, as
  /// further ones would.
  void check_judgeable() const;
  /// Compares the pairs so far, for the last time or not. Returns whether that is certain.
  bool compare_pairs(bool last);

  TurnOptions options_;
  measure::LookPlan plan_;
  BenchLauncher launcher_;
  double began_s_ = 0;
  results::Turns turns_;
  /// The files after the last whole pair; diff_ points into them.
  results::RunRecord base_;
  results::RunRecord test_;
  std::optional<results::Diff> diff_;
};

}  // namespace lockstep::cli
