#pragma once

#include <cstdint>

#include "lockstep/comm/communicator.h"
#include "lockstep/models/model.h"
#include "lockstep/train/sweep.h"

namespace lockstep::train {

/// How a network does on samples: sums, so that those of several ranks and batches can be added.
struct Tally {
  double loss_sum = 0;
  int64_t correct = 0;
  int64_t samples = 0;

  /// Counts the samples whose largest logit is that of their label.
  void add_predictions(const at::Tensor& logits, const at::Tensor& labels);
};

/// Batches of an epoch where the input does not say it: those of `device` are few and come again.
int64_t usual_steps_per_epoch(const RowPlan& row);

/// Runs the network over this rank's part of the evaluation samples with the running statistics of rank 0, as
/// PyTorch's DistributedDataParallel does, whatever statistics this rank keeps; its own are there again
/// afterwards. Nothing is learned. Returns the tally of all ranks, on all of them; the loss is summed over
/// samples. Collective over `group`, which may be null for one rank.
Tally evaluate(models::Model& model, const RowPlan& row, comm::Communicator* group);

/// The sums over all ranks, on all of them. Collective.
Tally over_all_ranks(const Tally& own, comm::Communicator* group);

}  // namespace lockstep::train
