#include "lockstep/launch/lost_rank.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "lockstep/base/host_name.h"
#include "lockstep/launch/child_process.h"

namespace lockstep::launch {
namespace {

/// Ranks that a message names.
constexpr size_t kNamedRanks = 8;

std::string when(const LostRank& lost) {
  // No row has begun, or the job has none.
  if (lost.label.empty())
    return lost.step == 0 ? " while starting" : fmt::format(" after step {}", lost.step);
  if (lost.label.starts_with("waiting for ")) return " while " + lost.label;
  if (lost.step == 0) return fmt::format(" before the end of the first step of {}", lost.label);
  return fmt::format(" after step {} of {}", lost.step, lost.label);
}

}  // namespace

Trouble LostRank::trouble() const {
  const int code = exit_code >= 1 && exit_code <= 255 ? exit_code : static_cast<int>(kExitFailed);
  if (rank == kMissingRanks) return {reason, advice, code};
  const std::string who =
      rank == kParent ? "the process that started the ranks" : fmt::format("rank {}", rank);
  // mpirun keeps the process ids of its ranks to itself.
  const std::string process = pid > 0 ? fmt::format(", pid {}", pid) : "";
  std::string what = fmt::format("{} (host {}{}) {}", who, host.empty() ? "?" : host, process, reason);
  // The parent trains nothing, so there is no step to name.
  if (rank != kParent || step > 0) what += when(*this);
  if (!detail.empty()) what += ": " + detail;
  return {what, advice, code};
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::string ending_signal_text(int signal) {
  return signal == SIGINT ? "interrupted (Ctrl-C)" : fmt::format("told to end ({})", signal_name(signal));
}

std::string describe_silence(const std::string& host, int64_t pid) {
  if (host != host_name()) return "went silent";
  const std::vector<std::string> status = process_status(pid);
  // States of proc(5): Z and X are processes that have ended and were not waited for yet.
  switch (status.empty() ? 'X' : status.front().front()) {
    case 'T':
    case 't':
      return "is stopped";
    case 'D':
      return "hangs in the kernel";
    case 'Z':
    case 'X':
      return "has ended";
    default:
      return "went silent";
  }
}

LostRank failure_of(int rank, const std::exception& error, const Progress::Snapshot& now) {
  LostRank own;
  own.rank = rank;
  own.host = host_name();
  own.pid = ::getpid();
  own.reason = "failed";
  own.kind = dynamic_cast<const CommError*>(&error) != nullptr ? LostRank::Kind::kDisturbed
                                                               : LostRank::Kind::kFailed;
  const Trouble trouble = trouble_of(error);
  own.detail = trouble.what;
  own.advice = trouble.advice;
  own.exit_code = trouble.exit_code;
  own.step = now.step;
  own.label = now.label;
  return own;
}

void mark_ended(LostRank& lost) {
  lost.reason = "ended without a goodbye";
  lost.advice =
      "It was killed or it crashed: look for its messages above, and in the system's log for a lack of "
      "memory.";
}

void mark_silent(LostRank& lost, double silent_s) {
  lost.kind = LostRank::Kind::kSilent;
  lost.reason = describe_silence(lost.host, lost.pid);
  lost.detail = fmt::format("nothing heard from it for {:.1f} s", silent_s);
  lost.advice = "If the machine is only slow, give it more time with --timeout.";
}

std::string ranks_text(const std::vector<int>& ranks) {
  const std::span named(ranks.data(), std::min(ranks.size(), kNamedRanks));
  std::string text = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(named, ", "));
  if (ranks.size() > named.size()) text += fmt::format(" and {} others", ranks.size() - named.size());
  return text;
}

std::string waiting_line(const std::string& who, std::chrono::duration<double> since,
                         std::chrono::duration<double> limit, const std::string& reason) {
  const std::string line = fmt::format("waiting for {} since {:.0f} s, for {:g} s at most (--join-timeout)",
                                       who, since.count(), limit.count());
  return reason.empty() ? line : fmt::format("{}: {}", line, reason);
}

}  // namespace lockstep::launch
