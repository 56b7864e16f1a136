#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/activity.h"
#include "lockstep/base/error.h"
#include "lockstep/base/registry.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/replica/accelerator.h"
#include "lockstep/replica/memory_use.h"
#include "lockstep/replica/parameters.h"
#include "lockstep/replica/sgd.h"
#include "lockstep/replica/state.h"
#include "lockstep/strategies/strategy_options.h"

namespace lockstep::strategies {

/// The properties of a strategy; printed by `lockstep info strategies`.
struct Traits {
  /// The quantity that ranks combine, and how: "gradients, mean over all ranks"; "nothing".
  std::string combines;
  /// Whether all gradients that the optimizer reads are known before its first update: the combined ones, or
  /// with `steps_alone` the rank's own.
  bool updates_from_combined_gradients = true;
  /// Steps that ranks take with their own gradients from one exchange of parameters to the next; 0: gradients
  /// are combined in every step. The last of these takes longer than the others, so measurements cover whole
  /// periods.
  int steps_alone = 0;
  /// Why one rank with the batches of all would not take the same steps; empty if it would.
  std::string no_joint_batch;
  /// Whether the ranks wait for each other in every step, so that the job's step takes as long as its slowest
  /// rank.
  bool coupled = true;
  /// Whether it needs a communicator.
  bool communicates = true;
  /// Whether only rank 0 trains, with a thread for each rank's device, while the other ranks sleep.
  bool one_process = false;
  /// The number of times that the optimizer is applied to a parameter in a step of the job, and the age, in
  /// updates, of the values with which a gradient was computed.
  std::string applications_per_step = "1";
  std::string staleness = "0";
  /// The batch-norm statistics that are used and kept.
  std::string batch_norm = "each rank's own";
  /// Whether all replicas have the same parameters after every step.
  bool replicas_equal = true;
  /// Whether gradients are sent in buckets, so that --bucket-mb has an effect.
  bool has_buckets = false;
  /// Why the same seed may give different bits; empty if it cannot.
  std::string depends_on_timing;
  /// Whether each rank's gradient is applied separately when it arrives.
  bool applies_on_arrival = false;
  /// Why the strategy cannot use a scaled loss (fp16); empty if it can.
  std::string no_loss_scale;
  /// Why a step on a GPU cannot be recorded into a CUDA graph over any backend; empty if it can.
  std::string not_recordable;
  /// Steps to train before a step is recorded: momenta are written in the first one, the order of buckets is
  /// agreed on after it, and a communicator connects when an operation is new.
  int steps_before_recording = 3;
};

/// A quantity that a strategy measured on one rank over the steps so far. In seconds if the name ends in _s.
struct Measured {
  /// How the values of all ranks are combined.
  enum class Over {
    /// A sum over steps; shown as the mean over ranks and steps.
    kSteps,
    /// A count; shown as the sum over ranks.
    kJob,
    /// A mean of `weight` values; shown as the weighted mean over ranks.
    kMean,
    /// A maximum; shown as the maximum over ranks.
    kMost
  };

  std::string name;
  double value = 0;
  Over over = Over::kSteps;
  double weight = 1;
};

/// "per step", "in all", "mean", "most".
const char* to_string(Measured::Over over);

/// Keeps the replicas in step, and applies the optimizer. One object per rank, used by that rank's training
/// thread. A step calls
///
///     begin_step(), { forward, before_backward(), backward } once for every micro-batch, combine(), apply()
///
/// Coupled strategies may communicate in any of these functions, so every rank must call all of them equally
/// often.
///
/// On a GPU the functions enqueue work in the training thread's stream, and unless they say otherwise the
/// host does not wait for it. The results of a step are final in that stream. A step that is recorded into a
/// CUDA graph and launched again calls none of these functions: any number of launches between two called
/// steps leaves the strategy in the same state as one step. A step must be recorded right after another step,
/// not after finish(), which may take work away from the next step.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// Begins a step and drops the gradients of the last one.
  virtual void begin_step() = 0;
  /// `last`: this is the backward pass of the step's last micro-batch, after which gradients are final. Those
  /// of earlier ones are added up without communication.
  virtual void before_backward(bool last) { static_cast<void>(last); }
  /// Waits for the communication in flight.
  virtual void combine() {}
  /// Applies the optimizer to the parameters that combine() has not updated yet.
  virtual void apply() = 0;

  /// Sets the learning rate from the next step on. Call between steps, with the same rate on all ranks. An
  /// owner that applies gradients on arrival uses the rate that its own rank has reached.
  virtual void set_learning_rate(double rate) = 0;

  /// Tensors, beside the parameters, that have the same bits on all ranks after a step: the combined
  /// gradients, if every rank has them. A difference shows there first.
  virtual std::vector<at::Tensor> equal_on_all_ranks() const { return {}; }

  /// Brings this replica's parameters up to date. Call after the last step and before the parameters are
  /// read; further steps may follow. Collective if the strategy communicates.
  virtual void finish() {}

  /// Saves everything that this rank needs to continue with the same bits, except the values of parameters
  /// and buffers. Call after finish(); may drop the gradients. Collective if the strategy communicates.
  virtual void save(replica::State& state) = 0;
  /// Continues from the state that a strategy of the same kind and options saved on the same rank. Call once,
  /// before the first step; the parameters must have their values before the strategy is created. Throws
  /// Error if the state does not fit.
  virtual void restore(const replica::State& state) = 0;

  /// Size of the momenta that this rank keeps.
  virtual int64_t momentum_bytes() const = 0;
  /// Size of other buffers that this rank keeps for communication.
  virtual int64_t buffer_bytes() const { return 0; }

  /// Shards that this rank keeps in place of whole parameters or gradients; absent without any.
  virtual std::optional<replica::ShardUse> shard_use() const { return std::nullopt; }

  /// Size of the gradients that are in a communicator's own memory, which LibTorch does not count.
  virtual int64_t foreign_bytes() const { return 0; }

  /// Quantities specific to this strategy, measured on this rank. Call between steps.
  virtual std::vector<Measured> measured() const { return {}; }
};

/// The arguments of a strategy. Everything is owned by the caller and must outlive the strategy.
struct StrategyContext {
  replica::Parameters& parameters;
  replica::SgdOptions optimizer;
  /// Null for strategies that do not communicate.
  comm::Communicator* communicator = nullptr;
  StrategyOptions options;
  /// The GPU of the parameters, which the calling thread has entered; null: they are on the CPU.
  replica::Accelerator* accelerator = nullptr;
  /// Notified of communication outside combine(), of updates outside apply(), and of work within these two
  /// that is not theirs. May be null.
  ActivityListener* activities = nullptr;
  /// A communicator of the same ranks in the same order for messages from host memory. Null: `communicator`
  /// is used for them. Required with nccl, which accepts GPU memory only.
  comm::Communicator* control = nullptr;
  /// Whether the network rounds matrices to bf16 before it computes with them.
  bool narrows_matrices = false;

  comm::Communicator& host_communicator() const { return control == nullptr ? *communicator : *control; }
};

struct StrategyInfo {
  std::string description;
  /// Its properties with these options.
  Traits (*traits)(const StrategyOptions& options) = nullptr;
  /// Collective if the strategy communicates.
  std::unique_ptr<Strategy> (*create)(const StrategyContext& context) = nullptr;
};

/// All strategies by name. The other part of data_parallel is a Model, train::DataParallelModel.
const Registry<StrategyInfo>& registry();

/// The way in which the ranks of a run would use GPUs.
struct GpuUse {
  /// The backend of their communicator.
  std::string backend;
  int ranks = 1;
  /// Whether ranks are threads of one process (--launch threads).
  bool are_threads = false;
  /// Whether several ranks have the same GPU (--share-device).
  bool share_gpus = false;
  /// Whether the loss is scaled (--precision fp16, replica::needs_loss_scale()).
  bool scales_loss = false;
};

/// The reason why a strategy cannot train in this way, with advice; absent if it can.
std::optional<ConfigError> why_not_on_gpu(const std::string& strategy, const StrategyOptions& options,
                                          const GpuUse& use);

}  // namespace lockstep::strategies
