#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/fields.h"

namespace lockstep::topology {

/// The GPU that a rank computes on. A field that the driver does not know is empty.
struct RankGpu {
  std::string host;
  /// "NVIDIA H200".
  std::string name;
  /// "0000:06:00.0".
  std::string pci_bus_id;
  /// Unique among all GPUs and slices of GPUs.
  std::string uuid;

  bool operator==(const RankGpu&) const = default;

  LOCKSTEP_DESCRIBE(kNullable, host, name, pci_bus_id, uuid)
};

// Placement. Every rank of a host takes the GPU of its own number among those that its process sees, modulo
// their count. So it does not matter whether a launcher shows every rank all GPUs of the host (mpirun,
// torchrun) or each only its own (srun --gpus-per-task=1, where every rank sees one GPU with the number 0):
// the ranks compare their GPUs.

/// `gpus`: the number that the process sees, 1 or more.
int gpu_of_rank(int local_rank, int gpus);

/// Throws ConfigError where `ranks` ranks of one host that all see the same `gpus` GPUs are too many for each
/// to have its own.
void require_enough_gpus(int ranks, int gpus);

/// The error to raise where ranks that do not want to share got the same GPU. `by_rank` is indexed by rank.
std::optional<ConfigError> why_gpus_clash(const std::vector<RankGpu>& by_rank);

/// Ranks that share a GPU, each list ascending: {{0, 2}, {1, 3}}. A rank whose GPU is unknown shares none.
std::vector<std::vector<int>> ranks_by_shared_gpu(const std::vector<RankGpu>& by_rank);

/// "ranks 0 and 2 have NVIDIA H200 (0000:06:00.0) of node1 in common"; empty where every rank has its own.
std::string shared_gpus_text(const std::vector<RankGpu>& by_rank);

/// "NVIDIA H200 (0000:06:00.0|0000:07:00.0)", in order of rank; empty for none.
std::string rank_gpus_text(const std::vector<RankGpu>& by_rank);

}  // namespace lockstep::topology
