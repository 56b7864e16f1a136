#pragma once

#include <string>

namespace lockstep::results {

/// Whether the replicas were compared bit for bit while they trained, and found equal: a run in which they
/// differ ends.
struct ReplicaChecks {
  /// Steps from one comparison to the next.
  int every = 0;
  /// How often; of all launches together.
  int checks = 0;
  /// Why there was nothing to compare; empty where there was.
  std::string not_applicable;
};

}  // namespace lockstep::results
