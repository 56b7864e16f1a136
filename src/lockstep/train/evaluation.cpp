#include "lockstep/train/evaluation.h"

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "lockstep/inputs/device.h"
#include "lockstep/replica/precision.h"
#include "lockstep/strategies/tensor_buffer.h"
#include "lockstep/train/row_trainee.h"

namespace lockstep::train {
namespace {

/// Rank 0's buffers in the place of this rank's own, for as long as this lives.
class BorrowedBuffers {
 public:
  /// Collective.
  BorrowedBuffers(replica::Parameters& parameters, comm::Communicator* group) : parameters_(parameters) {
    if (group == nullptr) return;
    for (const replica::NamedTensor& buffer : parameters_.buffers()) {
      own_.push_back(buffer.value.clone());
      group->broadcast(strategies::buffer_of(buffer.value), 0)->wait();
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

/// Every evaluation sample of this rank, once. The batches of `device` are those that it trains on.
void for_each_batch(const RowPlan& row, int rank, const std::function<void(const inputs::Batch&)>& visit) {
  const std::unique_ptr<inputs::Input> input = create_input(row, rank);
  for (int i = 0; i < inputs::kDeviceBatches; ++i) visit(input->next());
}

}  // namespace

void Tally::add_predictions(const at::Tensor& logits, const at::Tensor& labels) {
  correct += logits.argmax(1).eq(labels).sum().item<int64_t>();
  samples += labels.size(0);
}

int64_t usual_steps_per_epoch(const RowPlan& row) {
  return std::max<int64_t>(1, inputs::kDeviceBatches / row.accumulate);
}

Tally over_all_ranks(const Tally& own, comm::Communicator* group) {
  if (group == nullptr) return own;
  // Counts of samples are exact in a double.
  double sums[] = {own.loss_sum, static_cast<double>(own.correct), static_cast<double>(own.samples)};
  group->all_reduce(comm::host_buffer(sums, 3), comm::ReduceOp::kSum)->wait();
  return {sums[0], static_cast<int64_t>(sums[1]), static_cast<int64_t>(sums[2])};
}

Tally evaluate(models::Model& model, const RowPlan& row, comm::Communicator* group) {
  const at::NoGradGuard no_grad;
  const BorrowedBuffers borrowed(model.parameters(), group);
  const replica::Precision precision = replica::parse_precision(row.precision);
  Tally tally;
  for_each_batch(row, group == nullptr ? 0 : group->rank(), [&](const inputs::Batch& batch) {
    const replica::AutocastScope autocast(precision);
    const models::Output output = model.forward(batch.images, {.training = false});
    const double mean = models::cross_entropy(output, batch.labels).item<double>();
    tally.loss_sum += mean * static_cast<double>(batch.labels.size(0));
    tally.add_predictions(output.logits, batch.labels);
  });
  return over_all_ranks(tally, group);
}

}  // namespace lockstep::train
