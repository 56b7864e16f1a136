#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/fields.h"
#include "lockstep/launch/progress.h"

namespace lockstep::launch {

/// The "rank" of the parent that supervises the ranks, if that was lost.
constexpr int kParent = -1;
/// The "rank" of ranks that did not come. Their reason is a whole sentence.
constexpr int kMissingRanks = -2;

/// A rank that cannot go on, and the facts known about it.
struct LostRank {
  enum class Kind {
    /// Its process ended by a signal or without a goodbye, or its connection broke.
    kGone,
    /// No message came within the time-out: it is stopped or hangs.
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
  /// The event, as a predicate: "was killed by SIGKILL", "is stopped", "failed".
  std::string reason;
  /// Details, may be empty: the error's text, "nothing heard from it for 5.0 s".
  std::string detail;
  /// Advice for the user; may be empty.
  std::string advice;
  /// Steps completed of `label`, by the last message; 0 before the first.
  int64_t step = 0;
  std::string label;
  /// The exit code that it reported itself, else 1.
  int exit_code = 1;

  /// "rank 1 (host h, pid 123) was killed by SIGKILL after step 12 of resnet50 ddp 2 ranks", then ": " and
  /// the detail. The exit code is one of a failure, whatever another process claimed.
  Trouble trouble() const;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    int kind = static_cast<int>(self.kind);
    fields("rank", self.rank, FieldRule{.required = true, .least = kMissingRanks});
    fields("kind", kind, FieldRule{.required = true, .most = static_cast<int>(Kind::kDisturbed)});
    LOCKSTEP_FIELDS(kOptional, host, pid)
    LOCKSTEP_FIELDS(kLines, reason, detail, advice)
    LOCKSTEP_FIELDS(kOptional, step, label, exit_code)
    if constexpr (!std::is_const_v<Self>) self.kind = static_cast<Kind>(kind);
  }
};

/// "SIGKILL"; "signal 40" for one without a name.
std::string signal_name(int signal);

/// The end of a job by such a signal: "interrupted (Ctrl-C)", "told to end (SIGTERM)".
std::string ending_signal_text(int signal);

/// The failure of `rank`, which is this process or one of its threads, with the exit code of the kind of
/// error; an error of communication (CommError) may be another rank's doing.
LostRank failure_of(int rank, const std::exception& error, const Progress::Snapshot& now = {});

/// Fills in reason and advice for a rank that ended without a word.
void mark_ended(LostRank& lost);

/// Fills in kind, reason, detail and advice for a rank of which nothing was heard. The reason: "is stopped"
/// (SIGSTOP or a debugger), "hangs in the kernel" or "has ended" for a process on this host, else "went
/// silent".
void mark_silent(LostRank& lost, double silent_s);

/// "rank 1", "ranks 1, 3", "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 56 others".
std::string ranks_text(const std::vector<int>& ranks);

/// "waiting for rank 1 since 10 s, for 120 s at most (--join-timeout)", and the reason, if there is one.
std::string waiting_line(const std::string& who, std::chrono::duration<double> since,
                         std::chrono::duration<double> limit, const std::string& reason);

}  // namespace lockstep::launch
