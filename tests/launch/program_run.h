#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "scratch_folder.h"

namespace lockstep::launch::testing {

/// A program that a test runs, with its output and the ranks that it started. Everything is dead when it is
/// destroyed.
class ProgramRun {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  ProgramRun() = default;
  ~ProgramRun();
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;

  /// The folder that ranks write their numbers to, of this run alone.
  const std::filesystem::path& folder() const { return folder_; }

  /// Starts one more process; its output is joined with that of the others.
  pid_t start(const std::vector<std::string>& command, const Environment& environment = {});

  /// Waits until `ranks` ranks have written their process numbers. Fails the test after 15 s.
  void wait_for_ranks(int ranks);
  pid_t pid_of_rank(int rank) const;

  /// Exit code of the process, 128 + signal if a signal ended it. Fails the test and kills it after 15 s.
  int wait(pid_t pid);

  /// All that was written so far to stdout and stderr.
  std::string output() const;
  /// The text that on_departure kept for this rank; empty if it was not called.
  std::string kept(int rank) const;

  /// Waits until no rank is alive any more (a zombie is not); names those that still are after 5 s.
  std::string survivors() const;

 private:
  test::ScratchFolder scratch_;
  std::filesystem::path folder_ = scratch_.path();
  std::vector<pid_t> running_;
};

/// Path of launch_rank_program, which needs no LibTorch.
std::string rank_program();
/// Path of the same program with a TCPStore: its ranks find each other by themselves.
std::string tcp_rank_program();

/// The user's own mpirun, up to the program.
std::vector<std::string> mpirun_command(int ranks);

}  // namespace lockstep::launch::testing
