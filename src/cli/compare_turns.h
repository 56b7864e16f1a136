#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/launch/child_run.h"
#include "lockstep/measure/sequential.h"
#include "lockstep/results/tables/compare_tables.h"

#include "flags.h"

namespace lockstep::cli {

/// One side of a comparison in turns: a bench, started anew for each of its launches.
struct TurnSide {
  /// "base" or "test".
  std::string name;
  /// "lockstep", "bench", flags.
  Arguments command;
  /// The result file to which every launch adds itself.
  std::filesystem::path file;
};

struct TurnOptions {
  TurnSide base;
  TurnSide test;
  /// Without the confidence, which follows from the looks.
  results::DiffOptions how;
  size_t most_pairs = 64;
  double max_time_s = 1800;
  /// Takes what the launches print.
  std::filesystem::path log;
};

/// Launches of two sides in the order base, test, test, base, ..., until each row is certain or a limit is
/// reached. Prints a note for every launch, and on a terminal what runs at the moment.
class TurnRunner {
 public:
  explicit TurnRunner(TurnOptions options);

  /// Throws Error if a launch fails, with what it printed, and ConfigError or BackendMissing as the launch
  /// would. Whatever the end, turns() and diff() have what was measured.
  void run();

  /// How it ended.
  const results::Turns& turns() const { return turns_; }
  /// The last look; empty where there was no pair of launches.
  const std::optional<results::Diff>& diff() const { return diff_; }
  /// The signal that ended it.
  std::optional<int> interrupted_by() const { return interrupted_by_; }

 private:
  void take_turns();
  /// False if a signal ended it.
  bool launch(const TurnSide& side);
  /// Compares the pairs so far, for the last time or not. Returns whether every row is certain.
  bool look(bool last);
  void draw(const TurnSide& side, double began_s) const;
  [[noreturn]] void fail(const TurnSide& side, int exit_code, size_t log_begin) const;

  TurnOptions options_;
  measure::LookPlan plan_;
  double began_s_ = 0;
  size_t launches_ = 0;
  results::Turns turns_;
  /// The files after the last whole pair; diff_ points into them.
  results::RunRecord base_;
  results::RunRecord test_;
  std::optional<results::Diff> diff_;
  std::optional<int> interrupted_by_;
};

}  // namespace lockstep::cli
