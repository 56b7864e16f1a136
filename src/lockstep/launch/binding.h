#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/launch/rank_environment.h"

namespace lockstep::launch {

enum class Binding { kCore, kNuma, kNone };

/// core, numa and none, in the order of Binding.
const std::vector<std::string>& binding_names();
/// The binding of one of these names.
Binding binding_of(std::string_view name);

/// A core that this process may use.
struct Core {
  /// Its processors (hardware threads) that this process may use, by the system's numbers.
  std::vector<int> cpus;
  /// The system's number of its NUMA node.
  int numa_node = 0;
  /// Its place among all cores of the machine, used or not.
  int number = 0;
};

/// The cores that the cgroup and the affinity mask of the calling thread leave to this process, in the order
/// of the machine: neighbors share caches. Call before binding anything.
std::vector<Core> usable_cores();

struct BindingPlan {
  int threads_per_rank = 1;
  /// Processors per rank of this host, sorted; empty lists for Binding::kNone.
  std::vector<std::vector<int>> cpus;
  /// There are more threads than cores, so ranks share cores and the numbers understate the machine.
  bool oversubscribed = false;
};

/// Threads per rank unless the user gives them: max(1, cores / ranks).
int default_threads_per_rank(int cores, int ranks);

/// Spreads `ranks` ranks of `threads_per_rank` threads (0: the default) over the cores. kCore: consecutive
/// cores for each rank, one processor of each core as long as there are enough cores, then their other
/// processors, then sharing. kNuma: the whole NUMA nodes that the rank's cores are in. Throws ConfigError
/// that names --threads if one rank alone wants more threads than there are cores.
BindingPlan plan_binding(const std::vector<Core>& cores, int ranks, int threads_per_rank, Binding binding);

/// Binds the calling thread and those that it starts later; an empty list changes nothing. Throws
/// ConfigError.
void bind_this_thread(const std::vector<int>& cpus);

/// "0-3,8": for records and messages; "" for an empty list.
std::string format_cpus(const std::vector<int>& cpus);

}  // namespace lockstep::launch
