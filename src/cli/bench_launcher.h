#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "lockstep/launch/child_process.h"

#include "flags.h"

namespace lockstep::cli {

/// One side of a comparison in turns: a bench, started anew for each of its launches.
struct TurnSide {
  /// "base", "bucket=10".
  std::string name;
  /// "lockstep", "bench", flags.
  Arguments command;
  /// The result file to which every launch appends.
  std::filesystem::path file;
};

/// A side whose command is `command` with the flags that every launch of a comparison has; a row of a launch
/// ends after `row_time_s` seconds.
TurnSide side_of(std::string name, Arguments command, const std::filesystem::path& file, double row_time_s);

/// Starts benches one after the other, and waits for each. Prints a note for every launch, and on a terminal
/// the current one.
class BenchLauncher {
 public:
  /// `log`, a new file, receives the output of the launches; `most`, as "at most 128", is their number.
  BenchLauncher(const std::filesystem::path& log, std::string most);

  /// Returns false if a signal ended the launch. `state` follows on the terminal. Throws Error with the
  /// output of a launch that failed, and ConfigError or BackendMissing as the launch would.
  bool launch(const TurnSide& side, const std::function<std::string()>& state = {});

  /// The signal that ended a launch.
  std::optional<int> interrupted_by() const { return interrupted_by_; }

 private:
  void draw(const TurnSide& side, const std::function<std::string()>& state, double elapsed_s) const;
  [[noreturn]] void fail(const TurnSide& side, int exit_code, size_t log_begin) const;

  /// Stays readable where its folder is removed.
  UniqueFd log_;
  std::string most_;
  launch::SignalPipe signals_{launch::kPassedOn};
  size_t launches_ = 0;
  std::optional<int> interrupted_by_;
};

}  // namespace lockstep::cli
