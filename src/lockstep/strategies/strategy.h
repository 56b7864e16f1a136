#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/registry.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/replica/accelerator.h"
#include "lockstep/replica/parameters.h"
#include "lockstep/replica/sgd.h"
#include "lockstep/replica/state.h"
#include "lockstep/strategies/strategy_options.h"

namespace lockstep::strategies {

/// What a strategy promises; printed by `lockstep info strategies`.
struct Traits {
  /// What is combined, and how: "gradients, mean over all ranks"; "nothing".
  std::string combines;
  /// Whether the ranks wait for each other in every step: a step of the job is then the longest of its
  /// ranks'.
  bool coupled = true;
  /// Whether it needs a communicator.
  bool communicates = true;
  /// Whether rank 0 alone trains, with a thread for the device of each rank, while the others sleep.
  bool one_process = false;
  /// How often the optimizer is applied to a parameter in a step of the job, and how many updates old the
  /// values that a gradient was computed with may be then.
  std::string applications_per_step = "1";
  std::string staleness = "0";
  /// Whose batch-norm statistics are used and kept.
  std::string batch_norm = "each rank's own";
  /// Whether all replicas have the same parameters after every step.
  bool replicas_equal = true;
  /// Whether gradients travel in buckets, so that --bucket-mb means something.
  bool has_buckets = false;
  /// Why the same seed may give other bits; empty: it does not.
  std::string depends_on_timing;
  /// Whether each rank's gradient is applied on its own when it arrives, whatever the others do.
  bool applies_on_arrival = false;
  /// Why it cannot have the gradients of a scaled loss (fp16); empty where it can.
  std::string no_loss_scale;
  /// Why a step on a GPU cannot be recorded into a CUDA graph, over whatever backend; empty where it can be
  /// (why_not_recordable has the whole answer).
  std::string not_recordable;
  /// Steps to train before the one that is recorded: momenta begin in the first, the order of buckets is
  /// agreed on after it, and a communicator makes its connections where an operation is new.
  int steps_before_recording = 3;
};

/// A quantity that a strategy measures of itself on one rank, over the steps so far: seconds where the name
/// ends in _s, a number otherwise.
struct Measured {
  /// What is made of the values of all ranks.
  enum class Over {
    /// Summed over steps; shown as the mean over ranks and steps.
    kSteps,
    /// A count; summed over the ranks.
    kJob,
    /// A mean, of `weight` things; the mean of all of them.
    kMean,
    /// The most of any rank.
    kMost
  };

  std::string name;
  double value = 0;
  Over over = Over::kSteps;
  double weight = 1;
};

/// "per step", "in all", "mean", "most".
const char* to_string(Measured::Over over);

/// How the replicas are kept in step, and the optimizer with it. One object per rank, used by that rank's
/// training thread: begin_step, forward, before_backward, backward (these three once for every micro-batch),
/// combine, apply, and again. Coupled
/// strategies communicate in any of these, so every rank must call all of them the same number of times.
///
/// On a GPU these enqueue, in the stream that the training thread has entered, and unless they say otherwise
/// the host waits for nothing there; what a step leaves is final in that stream. A step that is recorded into
/// a CUDA graph and launched again calls none of these: between two steps that are called, any number of
/// launches leaves the strategy as one step does. It is recorded straight after a step, not after finish,
/// which may leave the next step less to do.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// Also makes room for new gradients.
  virtual void begin_step() = 0;
  /// `last`: the backward pass of the step's last micro-batch, which makes its gradients final. Those of
  /// earlier ones are only added up, nothing is sent.
  virtual void before_backward(bool last) { static_cast<void>(last); }
  /// Waits for what is in flight.
  virtual void combine() {}
  /// Applies the optimizer, as far as it was not applied while gradients arrived.
  virtual void apply() = 0;

  /// The optimizer's rate from the next step on. Between steps; the same on all ranks. An owner that applies
  /// gradients on arrival applies all with the rate that its own rank has reached.
  virtual void set_learning_rate(double rate) = 0;

  /// What else beside the parameters must have the same bits on all ranks after a step: combined gradients,
  /// where every rank has them. A difference shows there first.
  virtual std::vector<at::Tensor> equal_on_all_ranks() const { return {}; }

  /// After the last step, and before the parameters are looked at: this replica gets what a strategy keeps
  /// elsewhere. Further steps may follow. Collective where the strategy communicates.
  virtual void finish() {}

  /// What this rank needs to go on from here with the same bits, beside the values of parameters and buffers.
  /// After finish(); drops the gradients where these are in the way. Collective where the strategy
  /// communicates.
  virtual void save(replica::State& state) = 0;
  /// Goes on from what an object of the same kind and options saved on the same rank. Once, before the first
  /// step; the parameters have had their values since before this object was made. Throws Error where the
  /// state is of something else.
  virtual void restore(const replica::State& state) = 0;

  /// What this rank keeps for the optimizer.
  virtual int64_t momentum_bytes() const = 0;
  /// What this rank keeps beside parameters, gradients and momenta, to copy to and from for the exchange.
  virtual int64_t buffer_bytes() const { return 0; }

  /// What is this strategy's own kind, on this rank. Between steps.
  virtual std::vector<Measured> measured() const { return {}; }
};

/// What a strategy works on; all owned by the caller and outliving the strategy.
struct StrategyContext {
  replica::Parameters& parameters;
  replica::SgdOptions optimizer;
  /// Null for strategies that do not communicate.
  comm::Communicator* communicator = nullptr;
  StrategyOptions options;
  /// Where the parameters are, entered by the thread that makes the strategy; null: on the CPU.
  replica::Accelerator* accelerator = nullptr;
  /// What the ranks tell each other from host memory goes over this one, of the same ranks in the same order;
  /// null: over `communicator`, which then takes host memory too. With nccl it has to be given.
  comm::Communicator* control = nullptr;

  comm::Communicator& host_communicator() const { return control == nullptr ? *communicator : *control; }
};

struct StrategyInfo {
  std::string description;
  /// What it promises under these options.
  Traits (*traits)(const StrategyOptions& options) = nullptr;
  /// Collective for strategies that communicate.
  std::unique_ptr<Strategy> (*create)(const StrategyContext& context) = nullptr;
};

/// All strategies by name: single, independent, ddp, replicated, sharded, parameter_server, bsp, horovod,
/// data_parallel (whose part beyond the optimizer is a Model, train::DataParallelModel).
const Registry<StrategyInfo>& registry();

}  // namespace lockstep::strategies
