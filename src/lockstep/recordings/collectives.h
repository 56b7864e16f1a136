#pragma once

#include <string>
#include <vector>

#include "lockstep/recordings/kineto_trace.h"

namespace lockstep::recordings {

/// Seconds from `origin_ns` to a time of a trace; minus infinity for the lowest number.
inline double seconds_since(int64_t origin_ns, int64_t time_ns) {
  if (time_ns == std::numeric_limits<int64_t>::min()) return -std::numeric_limits<double>::infinity();
  return 1e-9 * static_cast<double>(time_ns - origin_ns);
}

/// One collective of one rank, in seconds after an origin.
struct Collective {
  /// "all-reduce", "all-gather", ...
  std::string kind;
  /// Name of the process group; empty: the trace does not say.
  std::string group;
  /// Ranks of the group, as PyTorch lists them; may be empty.
  std::string group_ranks;
  /// Size of the input; 0: the trace does not say.
  int64_t bytes = 0;
  /// 0: the trace does not say.
  int element_bytes = 0;
  /// Issue on the host, which decides to which step it belongs.
  double host_s = 0;
  /// Issue: on a CPU that on the host, on a device the end of what its kernel depends on.
  double issued_s = 0;
  double begin_s = 0;
  double ended_s = 0;
  /// Backend's thread or device's stream, numbered from 0 on.
  int lane = 0;
};

/// When the host launched what a device did.
class Launches {
 public:
  explicit Launches(const KinetoTrace& trace);
  /// By correlation; null where the trace lacks the launch.
  const Event* of(const Event& work) const;
  /// Time of the launch of a kernel or copy, an element of the trace's events. What the trace has no launch
  /// of was launched before the trace began (kBefore) if nothing precedes it on its stream that was launched
  /// later; else with its predecessor, since a stream keeps its order. In a trace without any launch, and on
  /// a stream without any in the midst of the trace, the begin of the work.
  int64_t time_ns(const Event& work) const {
    return time_ns_[static_cast<size_t>(&work - trace_.events.data())];
  }
  static constexpr int64_t kBefore = std::numeric_limits<int64_t>::min();

 private:
  const KinetoTrace& trace_;
  /// (correlation, index), sorted.
  std::vector<std::pair<int64_t, size_t>> by_correlation_;
  /// [event]; 0 for those that are not a device's.
  std::vector<int64_t> time_ns_;
};

/// All collectives in order of issue: kernels of NCCL where the trace has kernels, and what ran on the
/// threads of Gloo and MPI. Those that were launched before the trace have the lowest host_s.
std::vector<Collective> collectives_of(const KinetoTrace& trace, const Launches& launches, int64_t origin_ns);

}  // namespace lockstep::recordings
