#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/base/fields.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/inputs/input.h"
#include "lockstep/models/model.h"
#include "lockstep/train/rows/rank_group.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// The results of a network on samples, as sums that can be added over batches and ranks.
struct Tally {
  double loss_sum = 0;
  int64_t correct = 0;
  int64_t samples = 0;

  LOCKSTEP_DESCRIBE(kRequired, loss_sum, correct, samples)

  /// Counts the samples whose largest logit is that of their label.
  void add_predictions(const at::Tensor& logits, const at::Tensor& labels);
};

/// Runs a network over the evaluation samples: the evaluation set of real data, each sample once over all
/// ranks; without real data the training batches.
class Evaluation {
 public:
  /// `row` and `group` outlive this. `accelerator`: the network's GPU; null for the CPU.
  Evaluation(const RowPlan& row, const RankGroup& group,
             std::shared_ptr<replica::Accelerator> accelerator = nullptr);

  /// Evaluates with rank 0's running statistics, as PyTorch's DistributedDataParallel does; this rank's own
  /// are restored afterwards. Changes no parameters. Returns the tally over all ranks, on all of them; the
  /// loss is summed over samples. Collective over the group.
  Tally run(models::Model& model);

 private:
  const RowPlan& row_;
  RankGroup group_;
  std::unique_ptr<inputs::Input> input_;
};

/// The sums over all ranks, on all of them. Collective.
Tally over_all_ranks(const Tally& own, comm::Communicator* group);

}  // namespace lockstep::train
