#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/fields.h"
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

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    fields("name", self.name, kRequired);
    fields("bytes", self.bytes, kNotNegative);
    LOCKSTEP_FIELDS(kAtLeastOne, count, cores_each)
  }
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

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    fields("processor", self.processor, kNullable);
    LOCKSTEP_FIELDS(kAtLeastOne, cores, hardware_threads)
    fields("cpus", self.cpus, kNullable);
    fields("caches", self.caches);
  }
};

struct NumaNode {
  int index = 0;
  int64_t memory_bytes = 0;
  /// Empty: memory without processors (some accelerators' own).
  std::string cpus;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& node) {
    fields("index", node.index, kRequired);
    fields("memory_bytes", node.memory_bytes, kNullableCount);
    fields("cpus", node.cpus, kNullable);
  }
};

/// A whole host, regardless of how much of it this job may use.
struct System {
  std::string host;
  std::vector<Package> packages;
  std::vector<NumaNode> numa_nodes;
  DeviceMap map;
  /// The reason for which NVIDIA's driver was not asked about GPUs; empty if it was, or if nothing is known.
  std::string why_no_gpus;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    fields("host", self.host, kNullable);
    LOCKSTEP_FIELDS(kOptional, packages, numa_nodes)
    fields("topology", self.map, kNullable);
    fields("why_no_gpus", self.why_no_gpus, kNullable);
  }
};

/// The whole host of the calling process as hwloc shows it: packages, caches, NUMA nodes, and on the PCI bus
/// NVIDIA's GPUs and network devices. Memory and NVLinks of GPUs stay unknown. Never throws: facts that hwloc
/// lacks stay empty.
System read_host_system();

/// A system that `lstopo FILE.xml` recorded, with product names of devices. Throws Error that names `name`
/// for any other text.
System system_from_xml(std::string_view xml, std::string_view name);

}  // namespace lockstep::topology
