#include "lockstep/train/rows/step_sample.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <memory>

#include <ATen/Parallel.h>

#include "lockstep/base/clock.h"
#include "lockstep/train/rows/row_trainee.h"

namespace lockstep::train {
namespace {

/// A guess at a thread's floating-point operations per second, low, to choose how much to try.
constexpr double kGuessedRate = 60e9;
/// Operations of a step per multiply-add of the forward pass: 2 forward, 4 backward.
constexpr double kOperationsPerMultiplyAdd = 6;
/// The first step with a batch and the one after it, in steps: the first allocates and compiles.
constexpr double kStepsOfATry = 2.7;
/// Most steps with one batch; their median counts.
constexpr int kMostTries = 5;
/// Time of a step over the mean processor time of its threads: at times some of them wait.
constexpr double kIdleThreads = 1.1;

/// Processor time of this process.
double processor_s() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Random batches in memory, as many images as are asked for.
class GrowingInput final : public inputs::Input {
 public:
  explicit GrowingInput(RowPlan row) : row_(std::move(row)) {}

  void set_batch(int images) {
    row_.batch_per_rank = images;
    input_ = create_input(row_, 0);
  }
  const inputs::Batch& next() override { return input_->next(); }

 private:
  RowPlan row_;
  std::unique_ptr<inputs::Input> input_;
};

/// The row as one rank trains it for itself.
RowPlan alone(const RowPlan& row) {
  RowPlan single = row;
  single.strategy = results::kSingle;
  single.parsed_options = {};
  single.ranks = 1;
  single.accumulate = 1;
  single.batch_per_rank = 1;
  single.input = "device";
  single.verify_every = 0;
  return single;
}

/// A guess at the time that arithmetic takes per image.
double guessed_image_s(const models::ModelInfo& info, int size) {
  const double scale = static_cast<double>(size) / static_cast<double>(info.image_size);
  return kOperationsPerMultiplyAdd * static_cast<double>(info.multiply_adds) * scale * scale /
         (kGuessedRate * at::get_num_threads());
}

/// The largest image size, of at most the row's, with which two steps of one image fit into the budget.
int affordable_size(const models::ModelInfo& info, int size, double budget_s) {
  const double shrink = std::sqrt(budget_s / (kStepsOfATry * guessed_image_s(info, size)));
  if (shrink >= 1) return size;
  // Feature maps halve up to five times.
  constexpr int kMultiple = 32;
  const int smaller = static_cast<int>(shrink * size) / kMultiple * kMultiple;
  return std::clamp<int>(std::max(smaller, 2 * kMultiple), static_cast<int>(info.min_image_size), size);
}

/// Seconds of the steps with one batch.
struct Tried {
  int images = 0;
  double first_s = 0;
  double step_s = 0;
  double optimizer_s = 0;
};

class Sampler {
 public:
  explicit Sampler(const RowPlan& row) : row_(alone(row)), trainee_(row_, nullptr, nullptr, start()) {}

  /// Steps until `end_s`, at least two.
  Tried try_batch(int images, double end_s) {
    input_->set_batch(images);
    Tried tried{.images = images, .first_s = step().step_s};
    std::vector<Tried> steps;
    do {
      steps.push_back(step());
    } while (steps.size() < kMostTries && now_s() + steps.back().step_s < end_s);
    const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
    std::ranges::nth_element(steps, middle, {}, &Tried::step_s);
    tried.step_s = middle->step_s;
    tried.optimizer_s = std::min(middle->optimizer_s, tried.step_s);
    return tried;
  }

 private:
  TraineeStart start() {
    return {.make_input =
                [this](const std::shared_ptr<replica::Accelerator>& /*none*/) {
                  auto input = std::make_unique<GrowingInput>(row_);
                  input_ = input.get();
                  return input;
                },
            .blank = true};
  }

  Tried step() {
    const double before_s = processor_s();
    const StepLoopResult result = trainee_.train({.warmup_steps = 0, .steps = 1}, /*coupled=*/true,
                                                 /*stamp_phases=*/true, progress_);
    // Other programs lengthen the step, but not the processor time of its threads.
    const double busy_s = kIdleThreads * (processor_s() - before_s) / at::get_num_threads();
    Tried tried{.step_s = std::min(result.step_s.front(), busy_s)};
    if (!result.stamps.empty()) {
      const double share = tried.step_s / result.step_s.front();
      tried.optimizer_s = share * (result.stamps.front().applied_s - result.stamps.front().combined_s);
    }
    return tried;
  }

  RowPlan row_;
  launch::Progress progress_;
  GrowingInput* input_ = nullptr;
  RowTrainee trainee_;
};

}  // namespace

StepSample sample_steps(const RowPlan& row, int most_images, double budget_s) {
  const double begin_s = now_s();
  const double end_s = begin_s + budget_s;
  RowPlan tried_row = row;
  tried_row.image_size = affordable_size(models::info_of(row.model), row.image_size, budget_s);
  const double shrunk = static_cast<double>(row.image_size) / tried_row.image_size;
  Sampler sampler(tried_row);
  StepSample sample{.build_s = now_s() - begin_s, .images = 1};
  const Tried one = sampler.try_batch(1, now_s() + (end_s - now_s()) / 3);
  // Where reading weights takes most of the time of one image, further ones cost little.
  const double guess_s = guessed_image_s(models::info_of(row.model), tried_row.image_size);
  sample.per_image_s = std::min(one.step_s - one.optimizer_s, 3 * guess_s);
  sample.fixed_s = one.step_s - sample.per_image_s;
  sample.first_s = std::max(0.0, one.first_s - one.step_s);
  const double further_s = std::min(one.step_s, 2 * guess_s);
  const double left_s = (end_s - now_s()) / kStepsOfATry - one.step_s;
  const int more = left_s <= 0 ? 1 : static_cast<int>(std::min<double>(most_images, 1 + left_s / further_s));
  if (more > 1) {
    const Tried several = sampler.try_batch(more, end_s);
    const double mean_s = several.step_s / more;
    sample.per_image_s =
        std::clamp((several.step_s - one.step_s) / (more - 1), std::min(mean_s, guess_s / 3), mean_s);
    sample.fixed_s = several.step_s - more * sample.per_image_s;
    sample.images = more;
  }
  sample.per_image_s *= shrunk * shrunk;
  return sample;
}

}  // namespace lockstep::train
