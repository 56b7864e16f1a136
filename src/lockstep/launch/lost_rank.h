#pragma once

#include <cstdint>
#include <string>

namespace lockstep::launch {

/// The "rank" of the parent that supervises the ranks, where it is the one that was lost.
constexpr int kParent = -1;

/// A rank that will not go on, and what is known of it.
struct LostRank {
  enum class Kind {
    /// Its process ended: by a signal, an exit without goodbye, or its connection broke.
    kGone,
    /// Nothing was heard of it for the time-out: stopped or hung.
    kSilent,
    /// It reported an error of its own.
    kFailed,
    /// It reported an error that another rank's end may have caused (a broken connection, a time-out).
    kDisturbed,
  };

  int rank = 0;
  Kind kind = Kind::kGone;
  std::string host;
  int64_t pid = 0;
  /// What happened, as a predicate: "was killed by SIGKILL", "is stopped", "failed".
  std::string reason;
  /// More about it, may be empty: the error's text, "nothing heard from it for 5.0 s".
  std::string detail;
  /// What the user can do about it; may be empty.
  std::string advice;
  /// Steps completed of `label`, as last heard; 0 before the first.
  int64_t step = 0;
  std::string label;
  /// What its process exits with where it reported that itself, else 1.
  int exit_code = 1;
};

/// "rank 1 (host h, pid 123) was killed by SIGKILL after step 12 of resnet50 ddp 2 ranks", then ": " and the
/// detail.
std::string describe(const LostRank& lost);

/// "SIGKILL"; "signal 40" where it has no name.
std::string signal_name(int signal);

/// What keeps a silent process, as a predicate, when it is on this host: "is stopped" (SIGSTOP or a
/// debugger), "hangs in the kernel", "has ended", else "went silent".
std::string describe_silence(const std::string& host, int64_t pid);

}  // namespace lockstep::launch
