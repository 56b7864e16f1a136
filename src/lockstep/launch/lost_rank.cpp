#include "lockstep/launch/lost_rank.h"

#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "lockstep/launch/tcp_socket.h"

namespace lockstep::launch {
namespace {

std::string when(const LostRank& lost) {
  if (lost.label.empty())
    return lost.step == 0 ? " while starting" : fmt::format(" after step {}", lost.step);
  if (lost.step == 0) return fmt::format(" before the end of the first step of {}", lost.label);
  return fmt::format(" after step {} of {}", lost.step, lost.label);
}

/// The letter for a process's state in /proc; '?' if there is no such process.
char state_of_process(int64_t pid) {
  std::ifstream stream(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(stream, line);
  // The state follows the name in parentheses, which may itself hold blanks and parentheses.
  const size_t end = line.rfind(')');
  return end == std::string::npos || end + 2 >= line.size() ? '?' : line[end + 2];
}

}  // namespace

std::string describe(const LostRank& lost) {
  const std::string who =
      lost.rank == kParent ? "the process that started the ranks" : fmt::format("rank {}", lost.rank);
  std::string text =
      fmt::format("{} (host {}, pid {}) {}", who, lost.host.empty() ? "?" : lost.host, lost.pid, lost.reason);
  if (lost.rank != kParent || lost.step > 0) text += when(lost);
  if (!lost.detail.empty()) text += ": " + lost.detail;
  return text;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::string describe_silence(const std::string& host, int64_t pid) {
  if (host == host_name()) {
    switch (state_of_process(pid)) {
      case 'T':
      case 't':
        return "is stopped";
      case 'D':
        return "hangs in the kernel";
      case 'Z':
      case 'X':
      case '?':
        return "has ended";
      default:
        break;
    }
  }
  return "went silent";
}

}  // namespace lockstep::launch
