#pragma once

#include <stdexcept>
#include <string>

namespace lockstep {

/// A failure: a message with the values involved, and advice for the user. Nothing in the library prints or
/// exits; commands catch these and turn them into exit codes.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what, std::string advice = "")
      : std::runtime_error(what), advice_(std::move(advice)) {}

  /// Advice as a sentence; may be empty.
  const std::string& advice() const { return advice_; }

 private:
  std::string advice_;
};

/// An impossible request by the user: a wrong name, value or combination. Exit code 2.
class ConfigError : public Error {
  using Error::Error;
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

/// A backend's library, launcher or device is missing. Exit code 4.
class BackendMissing : public Error {
  using Error::Error;
};

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

}  // namespace lockstep
