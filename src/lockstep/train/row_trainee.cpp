#include "lockstep/train/row_trainee.h"

#include "lockstep/train/agreement.h"
#include "lockstep/train/bits.h"
#include "lockstep/train/memory_format.h"
#include "lockstep/train/replica_check.h"

namespace lockstep::train {

std::unique_ptr<inputs::Input> create_input(const RowPlan& row, int rank) {
  const models::ModelInfo& model_info = models::registry().get(row.model);
  return inputs::registry().get(row.input).create({.batch = row.batch_per_rank,
                                                   .channels = model_info.channels,
                                                   .image_size = row.image_size,
                                                   .classes = model_info.classes,
                                                   .seed = row.seed,
                                                   .rank = rank,
                                                   .ranks = row.ranks,
                                                   .memory_format = parse_memory_format(row.memory_format)});
}

RowTrainee::RowTrainee(const RowPlan& row, comm::Communicator* group, TracedCommunicator* tracer)
    : row_(row), group_(group), tracer_(tracer), strategy_info_(strategies::registry().get(row.strategy)) {
  const at::MemoryFormat memory_format = parse_memory_format(row.memory_format);
  const models::ModelInfo& model_info = models::registry().get(row.model);
  model_ = model_info.create({.seed = row.seed, .memory_format = memory_format});
  // Before the strategy hides by a broadcast, or hangs in, what the ranks do not have in common.
  if (group != nullptr) agree_on_replica(row, model_->parameters(), *group);
  input_ = create_input(row, group == nullptr ? 0 : group->rank());
  comm::Communicator* communicator = tracer == nullptr ? group : tracer;
  strategies::StrategyOptions options = row.strategy_options;
  options.bucket_mb = row.bucket_mb;
  strategy_ =
      strategy_info_.create({.parameters = model_->parameters(),
                             .optimizer = {.learning_rate = row.learning_rate,
                                           .momentum = row.momentum,
                                           .weight_decay = row.weight_decay},
                             .communicator = strategy_info_.traits.communicates ? communicator : nullptr,
                             .options = options});
}

StepLoopResult RowTrainee::train(const PacingOptions& pacing, bool coupled, bool stamp_phases,
                                 launch::Progress& progress) {
  StepLoopOptions options{.pacing = pacing,
                          .precision = replica::parse_precision(row_.precision),
                          .seed = row_.seed,
                          .accumulate = row_.accumulate,
                          .coupled = coupled};
  // A run that is stamped is to show what the strategy does, and nothing else.
  if (!stamp_phases && why_not_compared().empty()) {
    options.check_every = row_.verify_every;
    options.check = [this](int64_t steps) {
      strategy_->finish();
      require_equal_replicas(state_hash(), row_, steps, *group_);
    };
  }
  return run_steps({*model_, *input_, *strategy_, group_, stamp_phases, tracer_}, options, progress);
}

std::string RowTrainee::why_not_compared() const {
  return why_not_comparable(strategy_info_.traits, group_ == nullptr ? 1 : group_->size());
}

void RowTrainee::train_one_more(launch::Progress& progress) {
  run_steps({*model_, *input_, *strategy_, group_},
            {.pacing = {.warmup_steps = 0, .steps = 1},
             .precision = replica::parse_precision(row_.precision),
             .seed = row_.seed,
             .accumulate = row_.accumulate,
             .first_step = steps_},
            progress);
  ++steps_;
}

uint64_t RowTrainee::state_hash() const {
  uint64_t hash = kEmptyHash;
  for (const at::Tensor& tensor : model_->parameters().tensors()) add_bits(hash, tensor);
  for (const at::Tensor& tensor : strategy_->equal_on_all_ranks()) add_bits(hash, tensor);
  return hash;
}

replica::MemoryUse RowTrainee::memory() const {
  const std::vector<at::Tensor> parameters = model_->parameters().tensors();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
  return {.parameters = replica::storage_bytes(parameters),
          .gradients = replica::storage_bytes(gradients),
          .momenta = strategy_->momentum_bytes(),
          .buffers = strategy_->buffer_bytes()};
}

std::vector<float> RowTrainee::values() const {
  std::vector<float> flat;
  flat.reserve(static_cast<size_t>(model_->parameters().count()));
  for (const at::Tensor& tensor : model_->parameters().tensors()) {
    const auto* begin = static_cast<const float*>(tensor.const_data_ptr());
    flat.insert(flat.end(), begin, begin + tensor.numel());
  }
  return flat;
}

}  // namespace lockstep::train
