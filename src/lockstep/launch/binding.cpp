#include "lockstep/launch/binding.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"

namespace lockstep::launch {
namespace {

using Topology = std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)>;
using CpuSet = std::unique_ptr<hwloc_bitmap_s, void (*)(hwloc_bitmap_t)>;

Topology new_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) throw Error("hwloc cannot be started");
  return {topology, hwloc_topology_destroy};
}

CpuSet new_cpu_set() {
  return {hwloc_bitmap_alloc(), hwloc_bitmap_free};
}

std::vector<int> members(hwloc_const_bitmap_t set) {
  std::vector<int> cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) cpus.push_back(cpu);
  return cpus;
}

/// The system's number of the first NUMA node that has one of these processors.
int numa_node_of(hwloc_topology_t topology, hwloc_const_cpuset_t cpus) {
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    if (hwloc_bitmap_intersects(node->cpuset, cpus) != 0) return static_cast<int>(node->os_index);
  }
  return 0;
}

/// Cores in the machine's own order. If the system shows none (some virtual machines), each processor counts
/// as one.
std::vector<Core> cores_of(hwloc_topology_t topology, hwloc_const_cpuset_t allowed) {
  const auto type = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  const CpuSet usable = new_cpu_set();
  std::vector<Core> cores;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr) {
    // A core counts if any of its hardware threads may be used.
    hwloc_bitmap_and(usable.get(), object->cpuset, allowed);
    if (hwloc_bitmap_iszero(usable.get()) != 0) continue;
    cores.push_back({.cpus = members(usable.get()),
                     .numa_node = numa_node_of(topology, object->cpuset),
                     .number = static_cast<int>(object->logical_index)});
  }
  return cores;
}

/// All processors, core by core.
std::vector<int> cpus_of(const std::vector<Core>& cores) {
  std::vector<int> cpus;
  for (const Core& core : cores) cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  return cpus;
}

/// Processors for the threads of all ranks, rank by rank: the first processor of each core if there are
/// enough cores, else all processors core by core, so that a rank's threads share its own cores before those
/// of others.
std::vector<int> processors_in_order(const std::vector<Core>& cores, size_t threads) {
  if (threads > cores.size()) return cpus_of(cores);
  std::vector<int> order;
  for (const Core& core : cores) order.push_back(core.cpus.front());
  return order;
}

}  // namespace

const std::vector<std::string>& binding_names() {
  static const std::vector<std::string> names{"core", "numa", "none"};
  return names;
}

Binding binding_of(std::string_view name) {
  return static_cast<Binding>(std::ranges::find(binding_names(), name) - binding_names().begin());
}

std::vector<Core> usable_cores() {
  const Topology topology = new_topology();
  if (hwloc_topology_load(topology.get()) != 0) throw Error("hwloc cannot read this machine's topology");
  const CpuSet allowed = new_cpu_set();
  // The topology respects the cgroup; the affinity mask is a property of the thread.
  if (hwloc_get_cpubind(topology.get(), allowed.get(), HWLOC_CPUBIND_THREAD) != 0) {
    hwloc_bitmap_copy(allowed.get(), hwloc_topology_get_allowed_cpuset(topology.get()));
  }
  return cores_of(topology.get(), allowed.get());
}

int default_threads_per_rank(int cores, int ranks) {
  return std::max(1, cores / std::max(1, ranks));
}

BindingPlan plan_binding(const std::vector<Core>& cores, int ranks, int threads_per_rank, Binding binding) {
  const int available = static_cast<int>(cores.size());
  if (threads_per_rank > available) {
    std::vector<int> cpus = cpus_of(cores);
    std::ranges::sort(cpus);
    throw ConfigError(
        fmt::format("--threads {}: this job may use {} only (processors {})", threads_per_rank,
                    counted(available, "core"), format_cpus(cpus)),
        "Ask for fewer threads, or give the job more cores (taskset, numactl, the container's limits).");
  }
  BindingPlan plan;
  plan.threads_per_rank =
      threads_per_rank > 0 ? threads_per_rank : default_threads_per_rank(available, ranks);
  plan.oversubscribed = ranks * plan.threads_per_rank > available;
  plan.cpus.resize(static_cast<size_t>(ranks));
  if (binding == Binding::kNone) return plan;

  const auto threads = static_cast<size_t>(plan.threads_per_rank);
  const std::vector<int> order = processors_in_order(cores, threads * static_cast<size_t>(ranks));
  for (size_t rank = 0; rank < plan.cpus.size(); ++rank) {
    std::set<int> cpus;
    // Modulo: more threads than processors start over, and share them.
    for (size_t i = 0; i < threads; ++i) cpus.insert(order[(rank * threads + i) % order.size()]);
    // The rank may move within the nodes of its cores; threads stay near their memory.
    if (binding == Binding::kNuma) {
      std::set<int> nodes;
      for (const Core& core : cores) {
        if (std::ranges::any_of(core.cpus, [&](int cpu) { return cpus.contains(cpu); }))
          nodes.insert(core.numa_node);
      }
      for (const Core& core : cores) {
        if (nodes.contains(core.numa_node)) cpus.insert(core.cpus.begin(), core.cpus.end());
      }
    }
    plan.cpus[rank].assign(cpus.begin(), cpus.end());
  }
  return plan;
}

void bind_this_thread(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  // Not a fixed cpu_set_t, which ends at 1024 processors.
  const size_t count = static_cast<size_t>(*std::ranges::max_element(cpus)) + 1;
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(count),
                                                             [](cpu_set_t* s) { CPU_FREE(s); });
  const size_t bytes = CPU_ALLOC_SIZE(count);
  CPU_ZERO_S(bytes, set.get());
  for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), bytes, set.get());
  if (::sched_setaffinity(0, bytes, set.get()) != 0) {
    throw ConfigError(
        fmt::format("cannot bind to processors {}: {}", format_cpus(cpus), std::strerror(errno)),
        "Use --bind none.");
  }
}

std::string format_cpus(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? std::to_string(cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace lockstep::launch
