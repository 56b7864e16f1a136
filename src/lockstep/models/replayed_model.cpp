#include "lockstep/models/replayed_model.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/stream_seed.h"
#include "lockstep/models/accumulate.h"
#include "lockstep/models/traced_model.h"
#include "lockstep/network_file/recorded_training.h"
#include "lockstep/replica/random.h"
#include "lockstep/replica/sgd.h"

namespace lockstep::models {
namespace {

using network_file::NetworkFile;
using network_file::RecordedStep;
using network_file::RecordedTraining;

constexpr std::string_view kReplay = "replay:";
constexpr std::string_view kReplayMeans = "replay-means:";

/// Seconds of the clock that a replay waits by.
double clock_s(bool on_processor) {
  return on_processor ? processor_clock_s(CLOCK_THREAD_CPUTIME_ID) : now_s();
}

/// The part of a step that a phase has taken, in seconds as they were recorded.
class PhaseClock {
 public:
  /// `on_processor`: of RecordedTraining.
  explicit PhaseClock(bool on_processor) : on_processor_(on_processor), begin_s_(clock_s(on_processor)) {}

  double passed_s() const { return clock_s(on_processor_) - begin_s_; }

  /// Returns when `recorded_s` have passed since the phase began.
  void wait_until(double recorded_s) const {
    if (on_processor_) {
      while (passed_s() < recorded_s) continue;
    } else {
      std::this_thread::sleep_for(std::chrono::duration<double>(recorded_s - passed_s()));
    }
  }

 private:
  bool on_processor_;
  double begin_s_;
};

std::vector<RecordedStep> means(const std::vector<RecordedStep>& steps) {
  RecordedStep sum;
  for (const RecordedStep& step : steps) {
    sum.before_s += step.before_s;
    sum.backward_s += step.backward_s;
    sum.optimizer_s += step.optimizer_s;
  }
  const auto count = static_cast<double>(steps.size());
  return {{sum.before_s / count, sum.backward_s / count, sum.optimizer_s / count}};
}

/// Seconds that lockstep's update of so many parameters takes on this processor: that of at most 16 million,
/// the second of two, scaled up.
double own_update_s(int64_t parameters) {
  const int64_t tried = std::min(parameters, int64_t{1} << 24);
  const at::Tensor value = at::ones({tried}), gradient = at::ones({tried}), momentum = at::zeros({tried});
  double taken_s = 0;
  for (int round = 0; round < 2; ++round) {
    const PhaseClock update(/*on_processor=*/true);
    replica::fused_sgd({value}, {gradient}, {momentum}, {}, false);
    taken_s = update.passed_s();
  }
  return taken_s * static_cast<double>(parameters) / static_cast<double>(tried);
}

class ReplayedModel final : public Model, public WholeStep {
 public:
  ReplayedModel(std::shared_ptr<const RecordedTraining> training, const NetworkFile& file,
                const ModelOptions& options)
      : Model(replica::Parameters(options.seed, at::MemoryFormat::Contiguous)),
        training_(std::move(training)) {
    const at::NoGradGuard no_grad;
    const at::Generator random = replica::stream_generator(options.seed.value_or(0), "replayed parameters");
    for (const network_file::Tensor& tensor : file.parameters) {
      const at::Tensor value = at::empty(tensor.shape);
      options.seed ? value.normal_(0, 1, random) : value.zero_();
      parameters_.add(tensor.name, value);
    }
    accumulating_s_.resize(file.parameters.size());
    if (options.device == "cpu") update_s_ = own_update_s(file.parameter_count());
  }

  WholeStep* whole_step() override { return this; }

  Output forward(const at::Tensor& /*images*/, const kernels::Context& /*context*/) override {
    throw Error(training_->path + " has whole training steps only, no forward pass of its own");
  }

  at::Tensor run(const std::vector<at::Tensor>& samples, const kernels::Context& context,
                 const at::Tensor& scale, const std::function<void()>& forward_done) override {
    const at::NoGradGuard no_grad;
    const RecordedStep& step = step_of(context, samples.front().size(0));
    const PhaseClock forward(training_->on_processor);
    const at::Tensor level = samples.front().mean();
    const std::vector<at::Tensor> parameters = parameters_.tensors();
    const auto smallest = std::ranges::min_element(parameters, {}, &at::Tensor::numel);
    at::Tensor loss = smallest->square().sum() * level / 2;
    forward.wait_until(step.before_s + std::max(0.0, step.optimizer_s - update_s_));
    forward_done();
    const PhaseClock backward(training_->on_processor);
    const at::Tensor factor = level * scale;
    // Parameters are in the reverse order, as those of a network's first layers are final last.
    for (size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor& parameter = parameters[parameters.size() - 1 - i];
      at::Tensor gradient = parameter * factor;
      // A gradient is final when it was accumulated, which takes as long as in the last step.
      backward.wait_until(training_->gradients[i].ready * step.backward_s - accumulating_s_[i]);
      const PhaseClock accumulating(training_->on_processor);
      accumulate(parameter, std::move(gradient));
      accumulating_s_[i] = accumulating.passed_s();
    }
    backward.wait_until(step.backward_s);
    return loss;
  }

 private:
  const RecordedStep& step_of(const kernels::Context& context, int64_t batch) const {
    const auto rank = static_cast<uint64_t>(context.first_sample / std::max<int64_t>(1, batch));
    const auto& ranks = training_->ranks;
    // Recorded ranks repeat one and the same step, as what delays one delays others; any more draw their own.
    const uint64_t seed =
        lockstep::stream_seed(context.seed, "replayed step", static_cast<uint64_t>(context.step));
    const uint64_t drawn = rank < ranks.size() ? seed : lockstep::stream_seed(seed, "rank", rank);
    const auto& steps = ranks[rank % ranks.size()];
    return steps[drawn % steps.size()];
  }

  std::shared_ptr<const RecordedTraining> training_;
  /// Seconds of lockstep's own update, which the recorded one's time includes.
  double update_s_ = 0;
  /// Time that each gradient's accumulation took in the last step.
  std::vector<double> accumulating_s_;
};

NetworkFile described(const std::string& name, const RecordedTraining& training) {
  NetworkFile file{.path = name, .name = training.name};
  file.origin = fmt::format("the training of {} in {}, replayed", training.name, training.path);
  file.unit = training.unit;
  for (size_t i = training.gradients.size(); i-- > 0;)
    file.parameters.push_back({.name = fmt::format("p{}", i), .shape = {training.gradients[i].elements}});
  file.inputs = {{.name = "number"}};
  for (const char* device : {"cpu", "cuda"})
    file.graphs.push_back({.name = "replay", .batch = training.batch, .precision = "fp32", .device = device});
  return file;
}

}  // namespace

bool is_replay(const std::string& name) {
  return name.starts_with(kReplay) || name.starts_with(kReplayMeans);
}

ModelInfo replayed_network(const std::string& name) {
  const bool only_means = name.starts_with(kReplayMeans);
  RecordedTraining training;
  try {
    training =
        network_file::read_recorded_training(name.substr(only_means ? kReplayMeans.size() : kReplay.size()));
  } catch (const Error& error) {
    throw ConfigError(fmt::format("--model {}: {}", name, error.what()), error.advice());
  }
  if (only_means) {
    for (auto& steps : training.ranks) steps = means(steps);
  }
  const auto shared = std::make_shared<const RecordedTraining>(std::move(training));
  const auto file = std::make_shared<const NetworkFile>(described(name, *shared));
  return described_network(file, static_cast<int>(shared->batch), "the batch that was recorded",
                           [shared, file](const ModelOptions& options) -> std::unique_ptr<Model> {
                             return std::make_unique<ReplayedModel>(shared, *file, options);
                           });
}

}  // namespace lockstep::models
