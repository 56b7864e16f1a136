#include "lockstep/train/training/evaluation.h"

#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "lockstep/inputs/sources.h"
#include "lockstep/replica/precision.h"
#include "lockstep/strategies/tensor_buffer.h"
#include "lockstep/train/rows/row_trainee.h"

namespace lockstep::train {
namespace {

/// Puts rank 0's buffers in place of this rank's own for as long as it lives.
class BorrowedBuffers {
 public:
  /// Collective.
  BorrowedBuffers(replica::Parameters& parameters, comm::Communicator* data) : parameters_(parameters) {
    if (data == nullptr) return;
    for (const replica::NamedTensor& buffer : parameters_.buffers()) {
      own_.push_back(buffer.value.clone());
      data->broadcast(strategies::buffer_of(buffer.value), 0)->wait();
    }
  }
  ~BorrowedBuffers() {
    for (size_t i = 0; i < own_.size(); ++i) parameters_.buffers()[i].value.copy_(own_[i]);
  }
  BorrowedBuffers(const BorrowedBuffers&) = delete;
  BorrowedBuffers& operator=(const BorrowedBuffers&) = delete;

 private:
  replica::Parameters& parameters_;
  std::vector<at::Tensor> own_;
};

}  // namespace

void Tally::add_predictions(const at::Tensor& logits, const at::Tensor& labels) {
  correct += logits.argmax(1).eq(labels).sum().item<int64_t>();
  samples += labels.size(0);
}

Tally over_all_ranks(const Tally& own, comm::Communicator* group) {
  if (group == nullptr) return own;
  // One reduction of doubles for all three: counts below 2^53 are exact in them.
  double sums[] = {own.loss_sum, static_cast<double>(own.correct), static_cast<double>(own.samples)};
  group->all_reduce(comm::host_buffer(sums, 3), comm::ReduceOp::kSum)->wait();
  return {sums[0], static_cast<int64_t>(sums[1]), static_cast<int64_t>(sums[2])};
}

Evaluation::Evaluation(const RowPlan& row, const RankGroup& group,
                       std::shared_ptr<replica::Accelerator> accelerator)
    : row_(row),
      group_(group),
      input_(create_input(row, group.rank(), std::move(accelerator), /*evaluation=*/true)) {}

Tally Evaluation::run(models::Model& model) {
  const at::NoGradGuard no_grad;
  const BorrowedBuffers borrowed(model.parameters(), group_.data);
  const replica::Precision precision = replica::parse_precision(row_.precision);
  Tally tally;
  // Ranks may have different numbers of batches, so nothing in this loop may be collective.
  const int64_t batches = input_->batches_per_epoch().value_or(inputs::kDeviceBatches);
  for (int64_t i = 0; i < batches; ++i) {
    const inputs::Batch& batch = input_->next();
    const replica::AutocastScope autocast(precision, batch.images.device().type());
    const models::Output output = model.forward(batch.images, {.training = false});
    const double mean = models::cross_entropy(output, batch.labels).item<double>();
    tally.loss_sum += mean * static_cast<double>(batch.labels.size(0));
    tally.add_predictions(output.logits, batch.labels);
  }
  return over_all_ranks(tally, group_.control);
}

}  // namespace lockstep::train
