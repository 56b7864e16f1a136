#pragma once

#include <string>
#include <vector>

namespace lockstep::results {

/// The GPU that a rank computes on. Empty: not to be found out.
struct RankGpu {
  std::string host;
  /// "NVIDIA H200".
  std::string name;
  /// "0000:06:00.0".
  std::string pci_bus_id;
  /// Tells it apart from all others.
  std::string uuid;

  bool operator==(const RankGpu&) const = default;
};

/// Ranks that have a GPU in common, each list ascending: {{0, 2}, {1, 3}}. Those whose GPU is not known have
/// none.
std::vector<std::vector<int>> ranks_by_shared_gpu(const std::vector<RankGpu>& by_rank);

/// "ranks 0 and 2 have NVIDIA H200 (0000:06:00.0) of node1 in common"; empty where every rank has its own.
std::string shared_gpus_text(const std::vector<RankGpu>& by_rank);

/// "NVIDIA H200 (0000:06:00.0|0000:07:00.0)": by rank; empty for none.
std::string rank_gpus_text(const std::vector<RankGpu>& by_rank);

}  // namespace lockstep::results
