#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/strategies/strategy.h"
#include "lockstep/train/step/pacing.h"

namespace lockstep::train {

/// What an input was told beside what it is.
struct InputFlags {
  /// Empty: the input's own default.
  std::optional<int> prefetch;
  std::optional<int> workers;
  /// Where batches of other processes arrive.
  std::string address;
  /// Seconds to wait for one of them.
  double timeout_s = 30;

  /// Those that were given as one types them, but for the address, which says nothing of what is measured.
  std::string text() const;
};

/// Names of devices.
constexpr const char* kCpu = "cpu";
constexpr const char* kCuda = "cuda";

/// What the user asked `lockstep bench` to measure. Lists sweep: every combination is a row.
struct SweepOptions {
  std::vector<std::string> models{"resnet50"};
  /// Images per rank; empty: each model's default.
  std::vector<int> batches;
  /// Empty: powers of two up to the number of ranks that the caller found possible.
  std::vector<int> ranks;
  /// `all`: every one but `single` and `independent`.
  std::vector<std::string> strategies{"ddp"};
  std::vector<std::string> precisions{"fp32"};
  /// Empty: those that suit the device.
  std::vector<std::string> kernels;
  std::vector<double> bucket_mb{25};
  /// Flags of the group "Strategy", for those strategies that know them.
  std::vector<strategies::GivenOption> strategy_options;
  std::string memory_format = "channels_last";
  /// cpu or cuda.
  std::string device = kCpu;
  bool cuda_graph = false;
  std::string input = "device";
  /// Folder of the input `dataset`.
  std::string data;
  InputFlags input_flags;
  int image_size = 0;
  /// Batches per rank whose gradients are added up before they are combined, once per step.
  int accumulate = 1;
  PacingOptions pacing;
  /// Strong scaling: images of the whole job, the same at every number of ranks; empty: weak scaling, with
  /// `batches` per rank.
  std::vector<int> global_batches;
  /// `buckets`: find each row's bucket_mb by measuring; empty: nothing.
  std::string tune;
  /// Seconds that it may take per row.
  std::optional<double> tune_budget_s;
  /// Compare the replicas bit for bit every so many steps; empty: never.
  std::optional<int> verify_every;
  uint64_t seed = 1;
  double learning_rate = 0.01;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  /// Whether the baseline (`single`) and the machine's limit (`independent`) are measured too.
  bool controls = true;
};

/// One configuration to measure: a row of the tables.
struct RowPlan {
  std::string model;
  int batch_per_rank = 0;
  int ranks = 1;
  std::string strategy;
  std::string precision;
  /// Name of a kernels::KernelChoice.
  std::string kernels = "aten";
  double bucket_mb = 25;
  /// Without bucket_mb.
  strategies::StrategyOptions strategy_options;
  /// Those of this row's strategy as one types them, without defaults.
  std::string strategy_options_text;
  std::string memory_format;
  /// cpu or cuda, and which of the GPUs that its process sees a rank has: each rank its own.
  std::string device = kCpu;
  int device_index = 0;
  /// A step is recorded once and carried out again and again.
  bool cuda_graph = false;
  /// A GPU has only algorithms that give the same bits again (replica::Algorithms); a CPU has no others.
  bool repeatable = false;
  std::string input;
  std::string data;
  InputFlags input_flags;
  int image_size = 0;
  /// 0: weak scaling.
  int global_batch = 0;
  int accumulate = 1;
  PacingOptions pacing;
  /// Seconds to look for bucket_mb before the row is measured; 0: it is what it says.
  double tune_budget_s = 0;
  /// Steps from one comparison of the replicas to the next; 0: none.
  int verify_every = 0;
  uint64_t seed = 1;
  double learning_rate = 0;
  double momentum = 0;
  double weight_decay = 0;
  /// Where one process has the devices of all ranks: the processors of each; empty: not bound.
  std::vector<std::vector<int>> device_cpus;

  /// "resnet50 ddp 2 ranks", with what distinguishes it from the other rows.
  std::string label() const;
  /// That one rank computes in a step.
  int images_per_rank_step() const { return batch_per_rank * accumulate; }
};

/// All rows in the order in which they are measured: per model, batch, precision and kernels first the
/// baseline, then each strategy by ascending ranks, then the `independent` control at the same ranks. Throws
/// ConfigError for every name and value that cannot be measured, before anything is started.
std::vector<RowPlan> plan_rows(const SweepOptions& options);

/// What a row's strategy promises.
strategies::Traits traits_of(const RowPlan& row);

/// The ranks that train in a row, from 0 on: all of its ranks, or one that has the devices of all. The others
/// sleep.
int training_ranks(const RowPlan& row);

/// The most ranks of any row.
int most_ranks(const std::vector<RowPlan>& rows);

/// What one rank of a row is estimated to need where its tensors are, on its GPU or on the host, in bytes.
struct MemoryEstimate {
  int64_t process_bytes = 0;
  int64_t parameter_bytes = 0;
  int64_t activation_bytes = 0;

  int64_t total_bytes() const { return process_bytes + parameter_bytes + activation_bytes; }
};

MemoryEstimate estimate_memory(const RowPlan& row);

/// What a row will take, found from one forward pass of one image on the calling thread's number of threads.
struct RowEstimate {
  MemoryEstimate memory;
  /// Empty on a GPU, of whose speed the processor's says nothing.
  std::optional<double> duration_s;
};

RowEstimate estimate_row(const RowPlan& row);

/// Throws ConfigError when the ranks of a row on one host do not fit into `available_bytes` of its memory,
/// naming the row, what it needs and the largest batch that would fit.
void check_memory(const std::vector<RowPlan>& rows, int ranks_per_host, int64_t available_bytes);

/// A GPU as the ranks find it.
struct GpuRoom {
  /// "GPU 1 (NVIDIA H200)"; the same name is the same GPU.
  std::string name;
  int64_t available_bytes = 0;
};

/// The same for the memory of GPUs: gpus[i] is that of this host's i-th rank. Rows on a CPU need none.
void check_gpu_memory(const std::vector<RowPlan>& rows, const std::vector<GpuRoom>& gpus);

}  // namespace lockstep::train
