#pragma once

#include <stdexcept>
#include <string>

#include "lockstep/base/fields.h"

namespace lockstep {

/// Exit codes of every command.
enum ExitCode : int {
  kExitDone = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitRegression = 3,
  kExitBackendMissing = 4,
  kExitInterrupted = 130,
  kExitTerminated = 143,
};

/// A failure as a value: on its way to another rank, thread or process, or waiting to be reported.
struct Trouble {
  /// A sentence with the values involved. Empty: there is no trouble.
  std::string what;
  /// Advice for the user as a sentence; may be empty.
  std::string advice;
  /// Exit code of the process that ends because of it.
  int exit_code = kExitFailed;

  explicit operator bool() const { return !what.empty(); }

  LOCKSTEP_DESCRIBE(kLines, what, advice, exit_code)
};

/// A failure: a message with the values involved, and advice for the user. Nothing in the library prints or
/// exits; commands catch these and turn them into exit codes.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what, std::string advice = "")
      : std::runtime_error(what), advice_(std::move(advice)) {}
  explicit Error(const Trouble& trouble) : Error(trouble.what, trouble.advice) {}

  /// Advice as a sentence; may be empty.
  const std::string& advice() const { return advice_; }
  virtual int exit_code() const { return kExitFailed; }

 private:
  std::string advice_;
};

/// An impossible request by the user: a wrong name, value or combination.
class ConfigError : public Error {
 public:
  using Error::Error;
  int exit_code() const override { return kExitUsage; }
};

/// A communication library failed. The communicator is unusable afterwards.
class CommError : public Error {
  using Error::Error;
};

/// An operation did not finish in time. Fatal to its communicator.
class TimeoutError : public CommError {
  using CommError::CommError;
};

/// Another rank died or went silent.
class PeerLostError : public CommError {
  using CommError::CommError;
};

/// A backend's library, launcher or device is missing.
class BackendMissing : public Error {
 public:
  using Error::Error;
  int exit_code() const override { return kExitBackendMissing; }
};

/// An error of another library counts as a failed run. Those of files, JSON, memory and threads become
/// sentences; others have their own text, and no advice.
Trouble trouble_of(const std::exception& error);

}  // namespace lockstep
