#pragma once

#include <cstdint>
#include <optional>
#include <string>
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

}  // namespace lockstep::topology
