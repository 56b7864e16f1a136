#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/inputs/input.h"
#include "lockstep/models/model.h"
#include "lockstep/train/rows/rank_group.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// How a network does on samples: sums, so that those of several ranks and batches can be added.
struct Tally {
  double loss_sum = 0;
  int64_t correct = 0;
  int64_t samples = 0;

  /// Counts the samples whose largest logit is that of their label.
  void add_predictions(const at::Tensor& logits, const at::Tensor& labels);
};

/// Runs a network over the evaluation samples: of real data those that are there for it, each once over all
/// ranks; otherwise the batches that are trained on.
class Evaluation {
 public:
  /// `row` and `group` outlive this. `accelerator`: where the network is; null: on the CPU.
  Evaluation(const RowPlan& row, const RankGroup& group,
             std::shared_ptr<replica::Accelerator> accelerator = nullptr);

  /// With the running statistics of rank 0, as PyTorch's DistributedDataParallel does, whatever statistics
  /// this rank keeps; its own are there again afterwards. Nothing is learned. Returns the tally of all ranks,
  /// on all of them; the loss is summed over samples. Collective over the group.
  Tally run(models::Model& model);

 private:
  const RowPlan& row_;
  RankGroup group_;
  std::unique_ptr<inputs::Input> input_;
};

/// The sums over all ranks, on all of them. Collective.
Tally over_all_ranks(const Tally& own, comm::Communicator* group);

}  // namespace lockstep::train
