#pragma once

#include <string>
#include <vector>

#include "lockstep/recordings/kineto_trace.h"

namespace lockstep::recordings {

/// Seconds from `origin_ns` to a time of a trace.
inline double seconds_since(int64_t origin_ns, int64_t time_ns) {
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
  /// Issue on the host, which decides to which step it belongs.
  double host_s = 0;
  /// Issue: on a CPU that on the host, on a device the end of what its kernel depends on.
  double issued_s = 0;
  double begin_s = 0;
  double ended_s = 0;
  /// Backend's thread or device's stream, numbered from 0 on.
  int lane = 0;
};

/// All collectives in order of issue: kernels of NCCL where the trace has kernels, and what ran on the
/// threads of Gloo and MPI.
std::vector<Collective> collectives_of(const KinetoTrace& trace, int64_t origin_ns);

/// Launches by correlation: where on the host each kernel came from. [correlation] = index of the event.
class Launches {
 public:
  explicit Launches(const KinetoTrace& trace);
  /// Null where the trace lacks the launch.
  const Event* of(const Event& kernel) const;

 private:
  const KinetoTrace& trace_;
  /// (correlation, index), sorted.
  std::vector<std::pair<int64_t, size_t>> by_correlation_;
};

}  // namespace lockstep::recordings
