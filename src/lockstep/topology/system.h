#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/fields.h"
#include "lockstep/topology/device_map.h"

namespace lockstep::topology {

/// The facts about one host, as this job sees it, that may explain a number. Empty: unknown.
struct Machine {
  std::string host;
  /// "Debian GNU/Linux 12 (bookworm)".
  std::string os;
  std::string kernel;
  std::string processor;
  /// Processor sockets.
  int packages = 0;
  int numa_nodes = 0;
  /// Physical cores that this job may use: affinity mask, cpuset and CPU quota of its cgroups applied; at
  /// least 1.
  int cores = 0;
  /// All physical cores of the host.
  int host_cores = 0;
  /// Hardware threads in the affinity mask, and all that the host has.
  int hardware_threads = 0;
  int host_hardware_threads = 0;
  /// Processor time that the cgroups allow, in hardware threads; empty: no limit.
  std::optional<double> cpu_quota;
  /// Memory that this job may use (the smallest of its cgroups' limits), and all that the host has.
  int64_t memory_bytes = 0;
  int64_t host_memory_bytes = 0;
  /// Memory available at the time of inspection, within the cgroups' limits.
  int64_t available_memory_bytes = 0;
  int64_t swap_used_bytes = 0;
  /// Mean number of runnable tasks of the last minute before the run.
  std::optional<double> load_average;
  /// "performance", "powersave", "schedutil", ...; that of the first processor if they differ.
  std::string governor;
  /// Highest frequency of the first processor; empty in most virtual machines.
  std::optional<double> max_frequency_mhz;
  bool virtual_machine = false;
  /// "always", "madvise" or "never".
  std::string transparent_hugepages;
  /// Names of the NVIDIA GPUs that the driver shows, whether or not this build can use them.
  std::vector<std::string> gpus;
  /// GPUs, network devices and the paths between them; filled by inspect_gpus, empty without a GPU.
  DeviceMap map;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    fields("host", self.host);
    LOCKSTEP_FIELDS(kNullable, os, kernel, processor, packages, numa_nodes)
    LOCKSTEP_FIELDS(kOptional, cores, host_cores, hardware_threads, host_hardware_threads, cpu_quota,
                    memory_bytes, host_memory_bytes, available_memory_bytes, swap_used_bytes, load_average)
    fields("governor", self.governor, kNullable);
    LOCKSTEP_FIELDS(kOptional, max_frequency_mhz, virtual_machine)
    fields("transparent_hugepages", self.transparent_hugepages, kNullable);
    fields("gpus", self.gpus);
    fields("topology", self.map, kNullable);
  }
};

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

// None of these functions throws: facts that cannot be read stay empty, and unlimited is assumed.

/// The system with the driver's `gpus` in place of those that its PCI bus showed, in the driver's order.
/// Where the driver does not know a path or the place of a GPU, the bus does.
System with_gpus(System system, DeviceMap gpus);

/// The host of the calling process, within the limits of its affinity mask and cgroups. Takes some
/// milliseconds.
Machine inspect_host();

/// The whole host: hwloc for processors, memory and the PCI bus, NVIDIA's driver for GPUs. Takes some
/// milliseconds, with GPUs that sleep some seconds.
System inspect_system();

/// Only the devices of the host; none, and quickly so, if NVIDIA's driver shows no GPU.
DeviceMap inspect_gpus();

/// The part of its host that one rank may use: a launcher such as mpirun gives every rank a mask of its own.
struct RankMask {
  std::string host;
  /// The machine's numbers of its cores, and the system's of their hardware threads.
  std::vector<int> cores;
  std::vector<int> hardware_threads;

  LOCKSTEP_DESCRIBE(kRequired, host, cores, hardware_threads)
};

/// Sets the cores and hardware threads of each machine, which one of its ranks inspected within its own mask,
/// to those that its ranks may use together. A CPU quota still limits the cores.
void unite_masks(const std::vector<RankMask>& masks, std::vector<Machine>& machines);

}  // namespace lockstep::topology
