#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/inputs/input.h"
#include "lockstep/models/model.h"
#include "lockstep/replica/memory_use.h"
#include "lockstep/strategies/strategy.h"
#include "lockstep/train/rows/data_parallel_model.h"
#include "lockstep/train/rows/rank_group.h"
#include "lockstep/train/rows/sweep.h"
#include "lockstep/train/step/step_loop.h"
#include "lockstep/train/step/traced_communicator.h"

namespace lockstep::train {

/// The input of one of a row's training ranks; of a rank that has all devices, with the batch of all of them.
/// Its batches are on the accelerator, or on the CPU if it is null. With `evaluation`, the data to evaluate
/// with, if the input has such.
std::unique_ptr<inputs::Input> create_input(const RowPlan& row, int rank,
                                            std::shared_ptr<replica::Accelerator> accelerator = nullptr,
                                            bool evaluation = false);

/// Starting values, input and strategy other than the row's own.
struct TraineeStart {
  /// Changes initial values and buffers after the ranks have compared them, alike on all ranks; the strategy
  /// is made after it.
  std::function<void(replica::Parameters& parameters)> initialise;
  /// Empty: the row's.
  std::function<std::unique_ptr<inputs::Input>(std::shared_ptr<replica::Accelerator>)> make_input;
  /// Empty: the row's.
  std::function<std::unique_ptr<strategies::Strategy>(const strategies::StrategyContext&)> make_strategy;
};

/// One rank's part of a row: network, input and strategy, as the row says.
class RowTrainee {
 public:
  /// Collective over `group`, whose ranks must have the same row and the same initial values (ConfigError,
  /// agree_on_replica). The strategy communicates through `tracer` if given, else through `group`; both, and
  /// the row, outlive this. The calling thread, which trains, is on the row's device from then on.
  RowTrainee(const RowPlan& row, const RankGroup& group, TracedCommunicator* tracer = nullptr,
             TraineeStart start = {});

  /// Collective as run_steps. With RowPlan::verify_every the replicas are compared on the way, where they are
  /// comparable; Error where they differ.
  /// `trained`: as StepLoopOptions::trained.
  StepLoopResult train(const PacingOptions& pacing, bool coupled, bool stamp_phases,
                       launch::Progress& progress, std::function<void()> trained = {});

  /// From now on every step has the batch that would have been next.
  void repeat_one_batch();

  /// One more step, without measuring. Collective as run_steps.
  void train_one_more(launch::Progress& progress);

  /// `steps` steps of which each counts from `first_step` on, unwarmed. Collective as run_steps of a coupled
  /// strategy, which these all are here: no rank trains more than the others.
  StepLoopResult train_steps(int steps, int64_t first_step, StepHooks hooks, launch::Progress& progress);

  models::Model& model() { return *model_; }
  const std::shared_ptr<replica::Accelerator>& accelerator() const { return accelerator_; }

  /// The most bytes that tensors had at a time since the warm-up of the last train(), on each GPU of this
  /// rank; empty on a CPU.
  std::vector<int64_t> peak_memory_bytes() const;
  strategies::Strategy& strategy() { return *strategy_; }

  /// Why the replicas cannot be compared; empty where they can.
  std::string why_not_compared() const;
  bool coupled() const { return traits_.coupled; }
  /// Quantities that the strategy measured of itself on this rank so far.
  std::vector<strategies::Measured> measured() const;
  /// How the queues of the input were used so far.
  std::vector<feed::QueueUse> input_queues() const { return input_->queues(); }
  const replica::Parameters& parameters() const { return model_->parameters(); }
  /// All parameters, one after the other as they lie in memory, in the order of Parameters::trainable.
  std::vector<float> values() const;
  /// Overwrites all parameters by values in the same order.
  void set_values(const std::vector<float>& values);
  /// Memory that this rank's replica keeps from step to step. Call it after a step.
  replica::MemoryUse memory() const;
  /// Devices of this rank.
  int devices() const;
  /// A hash of the bits of a device's parameters; of another than device 0 as they were in the last step.
  uint64_t parameters_hash(int device = 0) const;
  /// A hash of the bits of everything that must be the same on all ranks after a step.
  uint64_t state_hash() const;

 private:
  Trainee trainee() const;
  void reset_peak_memory();
  void share_batch_norm();
  StepLoopOptions loop_options(const PacingOptions& pacing) const;

  const RowPlan& row_;
  RankGroup group_;
  TracedCommunicator* tracer_;
  strategies::Traits traits_;
  /// Null: the CPU.
  std::shared_ptr<replica::Accelerator> accelerator_;
  /// One per device of this rank; empty: the CPU.
  DataParallelModel::Accelerators accelerators_;
  /// Null where none is needed.
  std::shared_ptr<replica::LossScale> loss_scale_;
  std::unique_ptr<models::Model> model_;
  /// Likewise; of model_.
  std::unique_ptr<replica::WeightCopies> weight_copies_;
  /// model_ where it has several devices, else null.
  DataParallelModel* devices_ = nullptr;
  std::unique_ptr<inputs::Input> input_;
  /// With --sync-batch-norm: a communicator beside that of the strategy, whose buckets would delay it.
  std::unique_ptr<comm::Communicator> norm_group_;
  kernels::NormRanks norm_ranks_;
  double norm_s_ = 0;
  std::unique_ptr<strategies::Strategy> strategy_;
  ActivityLog activities_;
  int64_t steps_ = 0;
};

}  // namespace lockstep::train
