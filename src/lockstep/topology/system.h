#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/topology/device_map.h"

namespace lockstep::topology {

/// Caches of one kind and size within a package.
struct CacheGroup {
  /// "L3", "L1d".
  std::string name;
  int64_t bytes = 0;
  int count = 0;
  /// That share one of them.
  int cores_each = 0;
};

/// A processor socket. Where a system shows none (some virtual machines), all of it is one.
struct Package {
  std::string processor;
  int cores = 0;
  int hardware_threads = 0;
  /// Of its hardware threads: "0-31,64-95".
  std::string cpus;
  /// From the outermost to the innermost.
  std::vector<CacheGroup> caches;
};

struct NumaNode {
  int index = 0;
  int64_t memory_bytes = 0;
  /// Empty: memory without processors (some accelerators' own).
  std::string cpus;
};

/// A whole host, whatever of it this job may use.
struct System {
  std::string host;
  std::vector<Package> packages;
  std::vector<NumaNode> numa_nodes;
  DeviceMap map;
  /// Why NVIDIA's driver was not asked about GPUs; empty where it was, and where nothing is known.
  std::string why_no_gpus;
};

}  // namespace lockstep::topology
