#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/inputs/input.h"
#include "lockstep/models/model.h"
#include "lockstep/replica/accelerator.h"
#include "lockstep/replica/sgd.h"
#include "lockstep/strategies/strategy.h"
#include "lockstep/train/step/step_clock.h"
#include "lockstep/train/step/step_loop.h"

namespace lockstep::test {

/// One rank's network with everything that trains it.
struct TrainedReplica {
  /// Null: the CPU.
  std::shared_ptr<replica::Accelerator> accelerator;
  /// Listens to the strategy; outlives it.
  std::unique_ptr<train::ActivityLog> activities = std::make_unique<train::ActivityLog>();
  std::unique_ptr<models::Model> model;
  std::unique_ptr<inputs::Input> input;
  std::unique_ptr<strategies::Strategy> strategy;
  comm::Communicator* communicator = nullptr;
  int accumulate = 1;
  /// Null: the loss is as it is.
  std::shared_ptr<replica::LossScale> loss_scale;

  /// Trains `steps` further steps; returns what was measured.
  train::StepLoopResult train(int steps, bool coupled = true);
  /// All parameters as one flat copy.
  std::vector<float> parameters() const;
};

struct ReplicaChoice {
  std::string model = "mlp";
  std::string strategy = "ddp";
  int batch = 4;
  /// 0: the network's own.
  int image_size = 0;
  int accumulate = 1;
  double learning_rate = 0.05;
  strategies::StrategyOptions strategy_options;
  /// The GPU of the replica, entered by the calling thread; null: on the CPU.
  std::shared_ptr<replica::Accelerator> accelerator;
  /// For what lies in host memory; null: the communicator.
  comm::Communicator* control = nullptr;
  /// The loss scale in the first step; absent: the loss is not scaled.
  std::optional<double> loss_scale;
};

/// Collective over `communicator` (null for a rank alone).
TrainedReplica make_replica(const ReplicaChoice& choice, comm::Communicator* communicator);

/// Runs `rank_body` in `ranks` threads that are joined by the thread backend; an exception in one fails the
/// test.
void with_thread_ranks(int ranks, const std::function<void(comm::Communicator&)>& rank_body);

}  // namespace lockstep::test
