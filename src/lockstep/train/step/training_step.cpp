#include "lockstep/train/step/training_step.h"

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include "lockstep/cuda_kernels/plugin.h"
#include "lockstep/kernels/conv_bn.h"

namespace lockstep::train {
namespace {

/// The plugin's kernels where they are chosen and the images are in a GPU's memory.
const cuda_kernels::KernelsPluginV1* gpu_kernels_for(kernels::KernelChoice choice, const at::Tensor& images) {
  const bool chosen = choice == kernels::KernelChoice::kFused && images.is_cuda();
  return chosen ? &cuda_kernels::open_kernels() : nullptr;
}

}  // namespace

measure::StepStamps StepInstants::stamps(double begin_s, double end_s, const StepClock& clock) const {
  measure::StepStamps stamps;
  stamps.begin_s = begin_s;
  for (const ActivityLog::Entry& entry : activities) {
    auto& stretches = entry.activity == Activity::kApplying ? stamps.applying : stamps.communicating;
    stretches.push_back({clock.seconds(entry.begin), clock.seconds(entry.end)});
  }
  double began_s = begin_s;
  measure::ProcessorTimes& processor = stamps.processor;
  for (const MicroBatch& batch : micro_batches) {
    if (&batch != &micro_batches.front()) {
      stamps.add_earlier_micro_batch(began_s);
      began_s = stamps.backward_s;
    }
    stamps.input_s = clock.seconds(batch.input);
    stamps.forward_s = clock.seconds(batch.forward);
    stamps.backward_s = clock.seconds(batch.backward);
    processor.backward_s += batch.backward.processor_s - batch.forward.processor_s;
  }
  stamps.combined_s = clock.seconds(combined);
  stamps.applied_s = clock.seconds(applied);
  stamps.end_s = end_s;
  processor.optimizer_s = applied.processor_s - combined.processor_s;
  const double combining_s = combined.processor_s - micro_batches.back().backward.processor_s;
  processor.before_s = end.processor_s - clock.processor_origin_s() - processor.backward_s - combining_s -
                       processor.optimizer_s;
  return stamps;
}

/// A step on tensors with fixed addresses: a replay reads and writes the memory that was recorded, so each
/// batch is copied there.
class TrainingStep::Recorded {
 public:
  using Compute = std::function<StepOutcome(const inputs::Batch& batch, const at::Tensor& step)>;

  /// `first`: the batch of the first launch. `step`: steps trained before it.
  Recorded(const inputs::Batch& first, int64_t step, replica::Accelerator& accelerator, Compute compute)
      : batch_{.images = at::empty_like(first.images),
               .labels = at::empty_like(first.labels),
               .first_sample = first.first_sample},
        step_(at::full({}, step, first.labels.options())),
        compute_(std::move(compute)) {
    take(first);
    work_ = accelerator.record([this] {
      outcome_ = compute_(batch_, step_);
      step_.add_(1);
    });
  }

  StepOutcome launch(inputs::Input& input) {
    if (!has_batch_) take(input.next());
    has_batch_ = false;
    work_->launch();
    return outcome_;
  }

 private:
  void take(const inputs::Batch& batch) {
    const at::NoGradGuard no_grad;
    batch_.images.copy_(batch.images, /*non_blocking=*/true);
    batch_.labels.copy_(batch.labels, /*non_blocking=*/true);
    has_batch_ = true;
  }

  inputs::Batch batch_;
  /// Whether batch_ holds a batch that no launch has used.
  bool has_batch_ = false;
  /// Steps before the next launch, which increments it.
  at::Tensor step_;
  Compute compute_;
  /// Overwritten by every launch.
  StepOutcome outcome_;
  /// Declared last, so that it is destroyed before the tensors that it uses.
  std::unique_ptr<replica::RecordedWork> work_;
};

StepOutcome TrainingStep::run(int64_t step, StepInstants& at) const {
  if (recorded_) return recorded_->launch(trainee_.input);
  if (trainee_.stamp_phases) at.micro_batches.resize(static_cast<size_t>(options_.accumulate));
  if (options_.hooks.before_step) options_.hooks.before_step(step);
  StepInstants::MicroBatch not_stamped;
  const inputs::Batch& first = next_batch(at.micro_batches.empty() ? not_stamped : at.micro_batches.front());
  const bool logs = trainee_.stamp_phases && trainee_.activities != nullptr;
  if (logs) trainee_.activities->start(clock_);
  StepOutcome outcome = compute(first, {step}, at);
  if (logs) at.activities = trainee_.activities->take();
  return outcome;
}

void TrainingStep::record(int64_t step) {
  recorded_.reset();
  const inputs::Batch& first = trainee_.input.next();
  // Work that another thread issues now would be recorded too, or break the recording.
  const std::unique_lock<std::mutex> alone = trainee_.input.keep_off_gpu();
  recorded_ = std::make_shared<Recorded>(first, step, *trainee_.accelerator,
                                         [this, step](const inputs::Batch& batch, const at::Tensor& number) {
                                           StepInstants not_stamped;
                                           return compute(batch, {step, &number}, not_stamped);
                                         });
}

const inputs::Batch& TrainingStep::next_batch(StepInstants::MicroBatch& at) const {
  const inputs::Batch& batch = trainee_.input.next();
  stamp(at.input);
  return batch;
}

StepOutcome TrainingStep::compute(const inputs::Batch& first, const StepNumber& number,
                                  StepInstants& at) const {
  StepInstants::MicroBatch not_stamped;
  const auto instants = [&](int index) -> StepInstants::MicroBatch& {
    return at.micro_batches.empty() ? not_stamped : at.micro_batches[static_cast<size_t>(index)];
  };
  trainee_.strategy.begin_step();
  if (trainee_.weight_copies != nullptr) trainee_.weight_copies->refresh();
  StepOutcome sum = compute_micro_batch(first, number, 0, instants(0));
  for (int i = 1; i < options_.accumulate; ++i) {
    const StepOutcome one = compute_micro_batch(next_batch(instants(i)), number, i, instants(i));
    sum.loss = sum.loss.add(one.loss);
    if (sum.hits.defined()) sum.hits = sum.hits.add(one.hits);
  }
  trainee_.strategy.combine();
  stamp(at.combined);
  trainee_.strategy.apply();
  stamp(at.applied);
  return sum;
}

StepOutcome TrainingStep::compute_micro_batch(const inputs::Batch& batch, const StepNumber& number, int index,
                                              StepInstants::MicroBatch& at) const {
  if (models::WholeStep* whole = trainee_.model.whole_step()) {
    return compute_whole(*whole, batch, number, index, at);
  }
  StepOutcome outcome;
  at::Tensor loss, logits;
  {
    const replica::AutocastScope autocast(options_.precision, batch.images.device().type());
    const kernels::Context context{.training = true,
                                   .kernels = options_.kernels,
                                   .gpu_kernels = gpu_kernels_for(options_.kernels, batch.images),
                                   .seed = options_.seed,
                                   .step = number.step * options_.accumulate + index,
                                   .first_sample = batch.first_sample,
                                   .step_on_device = number.on_device,
                                   .weight_copies = trainee_.weight_copies != nullptr,
                                   .norm_ranks = trainee_.norm_ranks};
    const models::Output output = trainee_.model.forward(batch.images, context);
    if (counts_hits()) logits = output.logits.detach();
    loss = models::cross_entropy(output, batch.labels);
    kernels::count_batch(trainee_.model.parameters());
    // Autocast ends with the forward pass: backward uses the types that forward chose.
  }
  stamp(at.forward);
  // Gradients of micro-batches add up, so each contributes its share of the mean.
  if (options_.accumulate > 1) loss = loss.div(options_.accumulate);
  trainee_.strategy.before_backward(index == options_.accumulate - 1);
  (trainee_.loss_scale == nullptr ? loss : trainee_.loss_scale->scaled(loss)).backward();
  stamp(at.backward);
  outcome.loss = loss.detach();
  if (logits.defined()) outcome.hits = logits.argmax(1).eq(batch.labels).sum();
  return outcome;
}

StepOutcome TrainingStep::compute_whole(models::WholeStep& whole, const inputs::Batch& batch,
                                        const StepNumber& number, int index,
                                        StepInstants::MicroBatch& at) const {
  const kernels::Context context{.seed = options_.seed,
                                 .step = number.step * options_.accumulate + index,
                                 .first_sample = batch.first_sample};
  const std::vector<at::Tensor> samples = batch.tensors();
  // Gradients of micro-batches add up, so each contributes its share of the mean.
  at::Tensor scale = at::full({}, 1.0 / options_.accumulate, samples.front().options().dtype(at::kFloat));
  if (trainee_.loss_scale != nullptr) scale = trainee_.loss_scale->scaled(scale);
  const at::Tensor loss = whole.run(samples, context, scale, [&] {
    stamp(at.forward);
    trainee_.strategy.before_backward(index == options_.accumulate - 1);
  });
  stamp(at.backward);
  return {.loss = loss.div(options_.accumulate), .hits = {}};
}

}  // namespace lockstep::train
