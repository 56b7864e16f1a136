#pragma once

#include <string>
#include <vector>

#include "lockstep/topology/machine.h"

namespace lockstep::topology {

/// The part of its host that one rank may use: a launcher such as mpirun gives every rank a mask of its own.
struct RankMask {
  std::string host;
  /// The machine's numbers of its cores, and the system's of their hardware threads.
  std::vector<int> cores;
  std::vector<int> hardware_threads;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& mask) {
    fields("host", mask.host);
    fields("cores", mask.cores);
    fields("hardware_threads", mask.hardware_threads);
  }
};

/// Sets the cores and hardware threads of each machine, which one of its ranks inspected within its own mask,
/// to those that its ranks may use together. A CPU quota still limits the cores.
void unite_masks(const std::vector<RankMask>& masks, std::vector<Machine>& machines);

}  // namespace lockstep::topology
