#pragma once

#include <optional>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/results/record/rank_gpus.h"

namespace lockstep::launch {

// Which GPU a rank has. Every rank of a host takes the GPU of its own number among those that its process
// sees, counted round where there are fewer. So it does not matter whether a launcher shows every rank all
// GPUs of the host (mpirun, torchrun) or each only its own (srun --gpus-per-task=1, where every rank sees one
// GPU with the number 0): the ranks compare which ones they got.

/// `gpus`: that the process sees, 1 or more.
int gpu_of_rank(int local_rank, int gpus);

/// Throws ConfigError where `ranks` ranks of one host that all see the same `gpus` GPUs are too many for each
/// to have its own.
void require_enough_gpus(int ranks, int gpus);

/// Why ranks that do not want to share cannot go on with the GPUs that they got, [rank].
std::optional<ConfigError> why_gpus_clash(const std::vector<results::RankGpu>& by_rank);

}  // namespace lockstep::launch
