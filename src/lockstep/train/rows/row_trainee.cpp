#include "lockstep/train/rows/row_trainee.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/strategies/tensor_buffer.h"
#include "lockstep/train/rows/agreement.h"
#include "lockstep/train/rows/fingerprint.h"
#include "lockstep/train/rows/row_input.h"
#include "lockstep/train/rows/row_rules.h"

namespace lockstep::train {
namespace {

class OneBatch final : public inputs::Input {
 public:
  explicit OneBatch(const inputs::Batch& batch) : batch_(batch) {}
  const inputs::Batch& next() override { return batch_; }

 private:
  inputs::Batch batch_;
};

/// Accelerators of a rank's devices. A process with the devices of all ranks takes its first GPU and the ones
/// after it.
DataParallelModel::Accelerators accelerators_of(const RowPlan& row,
                                                const std::shared_ptr<replica::Accelerator>& first) {
  if (first == nullptr) return {};
  DataParallelModel::Accelerators all{first};
  const int devices = traits_of(row).one_process ? row.ranks : 1;
  for (int device = 1; device < devices; ++device) {
    all.push_back(replica::open_accelerator(row.device_index + device));
  }
  return all;
}

}  // namespace

std::unique_ptr<inputs::Input> create_input(const RowPlan& row, int rank,
                                            std::shared_ptr<replica::Accelerator> accelerator,
                                            bool evaluation) {
  inputs::InputOptions options = input_options_of(row);
  options.accelerator = std::move(accelerator);
  options.rank = rank;
  options.evaluation = evaluation;
  return inputs::registry().get(row.input).create(options);
}

RowTrainee::RowTrainee(const RowPlan& row, const RankGroup& group, TracedCommunicator* tracer,
                       TraineeStart start)
    : row_(row),
      group_(group),
      tracer_(tracer),
      traits_(traits_of(row)),
      accelerator_(on_gpu(row) ? replica::open_accelerator(row.device_index) : nullptr),
      accelerators_(accelerators_of(row, accelerator_)) {
  const replica::Precision precision = replica::parse_precision(row.precision);
  const at::Device device = accelerator_ ? accelerator_->device() : at::Device(at::kCPU);
  if (accelerator_) {
    accelerator_->enter_thread();
    // Frees the memory of the row before, whose graph had a pool of its own.
    accelerator_->release_unused_memory();
  }
  using enum replica::Algorithms;
  replica::set_up_precision(precision, device.type(), row.repeatable ? kRepeatable : kFastest);
  const at::MemoryFormat memory_format = parse_memory_format(row.memory_format);
  const models::ModelInfo& model_info = models::info_of(row.model);
  const auto create = [&] {
    return model_info.create({.seed = row.seed,
                              .memory_format = memory_format,
                              .batch = row.batch_per_rank,
                              .precision = row.precision,
                              .device = row.device});
  };
  if (traits_.one_process) {
    auto model = DataParallelModel::make(create, row.ranks, row.device_cpus, accelerators_);
    model->set_listener(&activities_);
    devices_ = model.get();
    model_ = std::move(model);
  } else {
    model_ = create();
  }
  // Checked before the strategy, whose broadcast would hide a difference between the ranks, or hang in it.
  if (group.control != nullptr) agree_on_replica(row, model_->parameters(), *group.control);
  if (start.initialise) start.initialise(model_->parameters());
  if (accelerator_) model_->parameters().move_to(device);
  if (replica::keeps_weight_copies(precision)) {
    weight_copies_ = std::make_unique<replica::WeightCopies>(model_->parameters(), at::kBFloat16);
  }
  input_ = start.make_input ? start.make_input(accelerator_) : create_input(row, group.rank(), accelerator_);
  if (tracer != nullptr) tracer->stamp_on(accelerator_);
  comm::Communicator* communicator = tracer == nullptr ? group.data : tracer;
  if (row.parsed_options.sync_batch_norm) share_batch_norm();
  strategies::StrategyOptions options = row.parsed_options;
  options.bucket_mb = row.bucket_mb;
  auto optimizer = replica::SgdOptions::of(row);
  if (row.cuda_graph) optimizer.keep_rate_on(device);
  if (replica::needs_loss_scale(precision)) {
    loss_scale_ = std::make_shared<replica::LossScale>(device);
    optimizer.loss_scale = loss_scale_;
  }
  const strategies::StrategyContext context{.parameters = model_->parameters(),
                                            .optimizer = optimizer,
                                            .communicator = traits_.communicates ? communicator : nullptr,
                                            .options = options,
                                            .accelerator = accelerator_.get(),
                                            .activities = &activities_,
                                            .control = group.control == group.data ? nullptr : group.control,
                                            .narrows_matrices = precision == replica::Precision::kBf16};
  strategy_ = start.make_strategy ? start.make_strategy(context)
                                  : strategies::registry().get(row.strategy).create(context);
}

void RowTrainee::share_batch_norm() {
  if (model_->whole_step() != nullptr) {
    throw ConfigError(
        fmt::format("--sync-batch-norm cannot reach into {}, whose step is a graph of its own", row_.model),
        "Leave it out, or use a built-in network.");
  }
  if (model_->parameters().buffers().empty()) {
    throw ConfigError(
        fmt::format("--sync-batch-norm has no effect on {}, which has no batch norm", row_.model),
        "Leave it out.");
  }
  if (group_.control == nullptr || group_.control->size() == 1) return;
  norm_group_ = group_.control->duplicate();
  norm_ranks_ = {.sum =
                     [this](const at::Tensor& numbers) {
                       const double begin_s = now_s();
                       const ActivityScope communicating(&activities_, Activity::kCommunicating);
                       norm_group_->all_reduce(strategies::buffer_of(numbers), comm::ReduceOp::kSum)->wait();
                       norm_s_ += now_s() - begin_s;
                     },
                 .count = norm_group_->size()};
}

std::vector<strategies::Measured> RowTrainee::measured() const {
  std::vector<strategies::Measured> all = strategy_->measured();
  if (norm_group_) all.push_back({"sync_batch_norm_s", norm_s_});
  return all;
}

Trainee RowTrainee::trainee() const {
  return {.model = *model_,
          .input = *input_,
          .strategy = *strategy_,
          .communicator = group_.control,
          .accelerator = accelerator_.get(),
          .loss_scale = loss_scale_.get(),
          .weight_copies = weight_copies_.get(),
          .norm_ranks = norm_group_ ? &norm_ranks_ : nullptr,
          .store = group_.store,
          .finished_key = group_.keys + "finished"};
}

StepLoopOptions RowTrainee::loop_options(const PacingOptions& pacing) const {
  return {.pacing = pacing,
          .precision = replica::parse_precision(row_.precision),
          .kernels = kernels::parse_kernels(row_.kernels),
          .seed = row_.seed,
          .accumulate = row_.accumulate};
}

StepLoopResult RowTrainee::train(const PacingOptions& pacing, bool coupled, bool stamp_phases,
                                 launch::Progress& progress, std::function<void()> trained) {
  Trainee trainee = this->trainee();
  trainee.stamp_phases = stamp_phases;
  trainee.tracer = tracer_;
  trainee.activities = &activities_;
  StepLoopOptions options = loop_options(pacing);
  options.coupled = coupled;
  options.leads_in = true;
  options.trained = std::move(trained);
  // cuDNN's trials take more memory than the steps that follow.
  if (accelerator_) options.warmed_up = [this] { reset_peak_memory(); };
  if (row_.cuda_graph && !stamp_phases) options.record_after = traits_.steps_before_recording;
  // A stamped run shows the strategy's phases only, without comparisons of replicas.
  if (!stamp_phases && why_not_compared().empty()) {
    options.check_every = row_.verify_every;
    options.check = [this](int64_t steps) {
      strategy_->finish();
      require_equal_replicas(state_hash(), row_, steps, *group_.control);
    };
  }
  return run_steps(trainee, options, progress);
}

StepLoopResult RowTrainee::train_steps(int steps, int64_t first_step, StepHooks hooks,
                                       launch::Progress& progress) {
  StepLoopOptions options = loop_options({.warmup_steps = 0, .steps = steps});
  options.first_step = first_step;
  options.hooks = std::move(hooks);
  return run_steps(trainee(), options, progress);
}

std::vector<int64_t> RowTrainee::peak_memory_bytes() const {
  std::vector<int64_t> peaks;
  for (const auto& accelerator : accelerators_) peaks.push_back(accelerator->peak_memory_bytes());
  if (!peaks.empty()) peaks.front() += strategy_->foreign_bytes();
  return peaks;
}

void RowTrainee::reset_peak_memory() {
  for (const auto& accelerator : accelerators_) accelerator->reset_peak_memory();
}

std::string RowTrainee::why_not_compared() const {
  return why_not_comparable(traits_, group_.control == nullptr ? 1 : group_.control->size());
}

void RowTrainee::repeat_one_batch() {
  input_ = std::make_unique<OneBatch>(input_->next());
}

void RowTrainee::train_one_more(launch::Progress& progress) {
  train_steps(1, steps_++, {}, progress);
}

int RowTrainee::devices() const {
  return devices_ == nullptr ? 1 : devices_->devices();
}

uint64_t RowTrainee::parameters_hash(int device) const {
  const models::Model& model = device == 0 ? *model_ : devices_->replica(device);
  uint64_t hash = kEmptyHash;
  for (const at::Tensor& tensor : model.parameters().tensors()) add_bits(hash, tensor);
  return hash;
}

uint64_t RowTrainee::state_hash() const {
  uint64_t hash = parameters_hash();
  for (const at::Tensor& tensor : strategy_->equal_on_all_ranks()) add_bits(hash, tensor);
  return hash;
}

replica::MemoryUse RowTrainee::memory() const {
  std::vector<at::Tensor> parameters = model_->parameters().tensors();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
  for (int device = 1; device < devices(); ++device) {
    const std::vector<at::Tensor> copies = devices_->replica(device).parameters().tensors();
    parameters.insert(parameters.end(), copies.begin(), copies.end());
  }
  const int64_t copies_bytes = weight_copies_ ? weight_copies_->bytes() : 0;
  const replica::ShardUse shards = strategy_->shard_use().value_or(replica::ShardUse());
  // Whole parameters beside shards are there to be read, until the next step.
  return {.parameters =
              (shards.parameters > 0 ? shards.parameters : replica::storage_bytes(parameters)) + copies_bytes,
          .gradients = shards.gradients > 0 ? shards.gradients : replica::storage_bytes(gradients),
          .momenta = strategy_->momentum_bytes(),
          .buffers = strategy_->buffer_bytes(),
          .gathered = shards.most_gathered};
}

std::vector<float> RowTrainee::values() const {
  std::vector<float> flat;
  flat.reserve(static_cast<size_t>(model_->parameters().count()));
  for (const at::Tensor& tensor : model_->parameters().tensors()) {
    const at::Tensor here = tensor.detach().cpu();
    const auto* begin = static_cast<const float*>(here.const_data_ptr());
    flat.insert(flat.end(), begin, begin + tensor.numel());
  }
  return flat;
}

void RowTrainee::set_values(const std::vector<float>& values) {
  const at::NoGradGuard no_grad;
  const float* next = values.data();
  for (const at::Tensor& tensor : model_->parameters().tensors()) {
    at::Tensor here = at::empty_like(tensor.detach(), at::kCPU);
    std::copy_n(next, here.numel(), here.mutable_data_ptr<float>());
    tensor.detach().copy_(here);
    next += here.numel();
  }
}

}  // namespace lockstep::train
