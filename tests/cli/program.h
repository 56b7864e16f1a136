#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "scratch_folder.h"

namespace lockstep::test {

/// A started program whose output is collected. Everything that it starts carries a mark in its environment,
/// by which processes left behind are found.
class Program {
 public:
  using Environment = std::map<std::string, std::string>;

  /// command[0] is looked up in PATH; "lockstep" is the program that was just built. An environment entry
  /// with an empty value removes the variable. The program sees no GPU, unless an entry says otherwise.
  explicit Program(std::vector<std::string> command, const Environment& environment = {});
  /// Kills what is still there.
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Waits until it ends; fails the test and kills it after `seconds`. 128 + signal when it was killed by
  /// one.
  int wait(double seconds = 200);

  /// Waits until its standard error (or output) holds `text`; false after `seconds` or when it ended without.
  bool wait_for_error(const std::string& text, double seconds = 200);

  std::string output() const;
  std::string error() const;

  pid_t pid() const { return pid_; }
  void signal(int number) const;

  /// Living processes with the mark, but for this test's own, whose environment has name=value.
  std::vector<pid_t> descendants(const std::string& name = "", const std::string& value = "") const;

  /// Whether within `seconds` no process with the mark is alive.
  bool nothing_left_behind(double seconds = 10) const;

  /// Asks again and again; false when `done` was not true within `seconds`.
  bool poll_until(double seconds, const std::function<bool()>& done) const;

 private:
  bool has_ended();

  ScratchFolder folder_;
  std::string mark_;
  pid_t pid_ = -1;
  int status_ = -1;
  bool reaped_ = false;
};

struct Finished {
  int exit_code = 0;
  std::string output;
  std::string error;
};

/// Starts the program, waits for its end and checks that nothing was left behind.
Finished run(std::vector<std::string> command, const Program::Environment& environment = {},
             double seconds = 200);

/// How often `part` stands in `text`.
size_t occurrences(const std::string& text, const std::string& part);

}  // namespace lockstep::test
