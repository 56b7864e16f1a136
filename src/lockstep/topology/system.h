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
  /// Cores that share one cache.
  int cores_each = 0;
};

/// A processor socket. A system that shows none (some virtual machines) is one package.
struct Package {
  std::string processor;
  int cores = 0;
  int hardware_threads = 0;
  /// Its hardware threads: "0-31,64-95".
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

/// A whole host, regardless of how much of it this job may use.
struct System {
  std::string host;
  std::vector<Package> packages;
  std::vector<NumaNode> numa_nodes;
  DeviceMap map;
  /// The reason for which NVIDIA's driver was not asked about GPUs; empty if it was, or if nothing is known.
  std::string why_no_gpus;
};

}  // namespace lockstep::topology
