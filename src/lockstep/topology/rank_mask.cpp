#include "lockstep/topology/rank_mask.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace lockstep::topology {

void unite_masks(const std::vector<RankMask>& masks, std::vector<Machine>& machines) {
  for (Machine& machine : machines) {
    std::set<int> cores, hardware_threads;
    for (const RankMask& mask : masks) {
      if (mask.host != machine.host) continue;
      cores.insert(mask.cores.begin(), mask.cores.end());
      hardware_threads.insert(mask.hardware_threads.begin(), mask.hardware_threads.end());
    }
    if (cores.empty()) continue;
    machine.cores = static_cast<int>(cores.size());
    machine.hardware_threads = static_cast<int>(hardware_threads.size());
    // A thread that has used up the quota is stopped until the next period, so only whole cores count.
    if (machine.cpu_quota) {
      machine.cores = std::clamp(static_cast<int>(std::floor(*machine.cpu_quota + 1e-6)), 1, machine.cores);
    }
  }
}

}  // namespace lockstep::topology
