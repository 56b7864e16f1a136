#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/replica/memory_use.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// Estimated memory of one rank of a row, on its GPU if its tensors are there, else on the host.
struct MemoryEstimate {
  int64_t process_bytes = 0;
  int64_t parameter_bytes = 0;
  int64_t activation_bytes = 0;

  int64_t total_bytes() const { return process_bytes + parameter_bytes + activation_bytes; }
};

/// From one forward pass of one image with the calling thread's number of threads; cached by the process.
MemoryEstimate estimate_memory(const RowPlan& row);

/// The row's memory per rank by kind, as docs/strategies.md has it; of the rank that has the most.
replica::MemoryUse predict_memory(const RowPlan& row);

/// The rows whose ranks are estimated to need at most `limit_bytes` each, and for every other one a sentence.
struct WithinLimit {
  std::vector<RowPlan> rows;
  std::vector<std::string> left_out;
};
WithinLimit rows_within(std::vector<RowPlan> rows, int64_t limit_bytes);

/// Throws ConfigError when the ranks of a row on one host do not fit into `available_bytes` of its memory,
/// naming the row, its need and the largest batch that would fit. For rows on GPUs it returns warnings
/// instead: they need little host memory, most of it for libraries, and virtual machines with GPUs may get
/// more memory when they use it.
std::vector<std::string> check_memory(const std::vector<RowPlan>& rows, int ranks_per_host,
                                      int64_t available_bytes);

/// A GPU as the ranks find it.
struct GpuRoom {
  /// "GPU 1 (NVIDIA H200)"; the same name is the same GPU.
  std::string name;
  int64_t available_bytes = 0;
};

/// The same for the memory of GPUs: gpus[i] is that of this host's i-th rank. Rows on a CPU need none.
void check_gpu_memory(const std::vector<RowPlan>& rows, const std::vector<GpuRoom>& gpus);

/// The largest batch per rank that can be expected to fit where the row's own does not and tensors had
/// `used_bytes` when memory ran out; 0: none.
int fitting_batch(const RowPlan& row, const MemoryEstimate& estimate, int64_t used_bytes);

/// Seconds at least and at most; equal where the number of steps is given.
struct Duration {
  double least_s = 0;
  double most_s = 0;
};

/// Seconds of one rank: to build its part of a row, first step included, and for each later step.
struct StepCost {
  double set_up_s = 0;
  double step_s = 0;
};

/// Trains the row's network on a processor for some steps, as one rank alone with the calling thread's number
/// of threads. A batch that would take seconds is cut, and the time of a step is multiplied accordingly.
/// Throws what RowTrainee throws.
StepCost try_steps(const RowPlan& row);

/// Seconds by which all-reduces of the row's gradients lengthen a step of `step_s` on a host of the row's
/// ranks, where these leave cores free or do not: at the speed at which this machine's sockets move bytes,
/// measured for a moment once in a process.
double exchange_s(const RowPlan& row, double step_s, int ranks_on_host, int free_cores);

/// The duration of a row whose ranks need `cost`, and of its breakdown if it has one.
Duration duration_of(const RowPlan& row, const StepCost& cost, bool breakdown);

}  // namespace lockstep::train
