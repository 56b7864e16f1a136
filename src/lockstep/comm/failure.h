#pragma once

#include <string>

namespace lockstep::comm {

/// Why an operation failed, in a form that can be thrown by several threads and more than once.
struct Failure {
  enum class Kind { kComm, kTimeout, kPeerLost, kConfig, kOther };

  Kind kind = Kind::kComm;
  std::string what;
  std::string advice;

  /// Throws the exception of lockstep/base/error.h that `kind` stands for.
  [[noreturn]] void raise() const;

  /// Call inside of a catch block.
  static Failure from_current_exception();
};

}  // namespace lockstep::comm
