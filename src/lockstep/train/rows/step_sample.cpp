#include "lockstep/train/rows/step_sample.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include <ATen/Parallel.h>

#include "lockstep/base/clock.h"
#include "lockstep/train/rows/row_trainee.h"

namespace lockstep::train {
namespace {

/// Guesses, low, to choose how much to try: a thread's floating-point operations and the memory's bytes per
/// second.
constexpr double kGuessedRate = 60e9;
constexpr double kGuessedBytesPerS = 10e9;
/// Operations of a step per multiply-add of the forward pass: 2 forward, 4 backward.
constexpr double kOperationsPerMultiplyAdd = 6;
/// Times that a step reads or writes as many bytes as there are parameters: forward, backward twice, update.
constexpr double kPassesOverParameters = 4;
/// Steps are tried with few images, then with more of them. Least steps of either try beside its first, which
/// allocates and compiles, and the time of all of them in steps.
constexpr int kLeastOfFirst = 2;
constexpr double kTryOfFirst = 3.7;
constexpr int kLeastOfSecond = 1;
constexpr double kTryOfSecond = 2.3;
/// The size of a small image; feature maps halve up to five times.
constexpr int kSmallSize = 64;
constexpr int kSizeStep = 32;
/// Most steps of a try; the shortest counts, since memory that is touched for the first time lengthens
/// not only the first.
constexpr int kMostTries = 5;
/// Time of a step over the mean processor time of its threads: at times some of them wait.
constexpr double kIdleThreads = 1.1;

/// Processor time of this process.
double processor_s() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The row as one rank trains it for itself.
RowPlan alone(const RowPlan& row) {
  RowPlan single = row;
  single.strategy = results::kSingle;
  single.parsed_options = {};
  single.ranks = 1;
  single.accumulate = 1;
  single.input = "device";
  single.verify_every = 0;
  // Memory that is touched for the first time takes longer than the update.
  single.momentum = 0;
  single.nesterov = false;
  return single;
}

/// A guess at the time that arithmetic takes per image.
double guessed_image_s(const models::ModelInfo& info, int size) {
  const double scale = static_cast<double>(size) / static_cast<double>(info.image_size);
  return kOperationsPerMultiplyAdd * static_cast<double>(info.multiply_adds) * scale * scale /
         (kGuessedRate * at::get_num_threads());
}

/// A guess at the time in which a step reads and writes parameters and gradients.
double guessed_fixed_s(const models::ModelInfo& info) {
  return kPassesOverParameters * sizeof(float) * static_cast<double>(info.parameters) / kGuessedBytesPerS;
}

/// Images of a step.
struct Images {
  int count = 1;
  int size = 0;

  /// As many of the row's as have the same number of pixels.
  double weight(const RowPlan& row) const {
    const double side = static_cast<double>(size) / row.image_size;
    return count * side * side;
  }
};

/// One of the row's images if tries of one and of two fit into the budget, else a small one.
Images first_images(const RowPlan& row, double budget_s) {
  const models::ModelInfo& info = models::info_of(row.model);
  const double needed_s = kTryOfFirst * (guessed_fixed_s(info) + guessed_image_s(info, row.image_size)) +
                          kTryOfSecond * (guessed_fixed_s(info) + 2 * guessed_image_s(info, row.image_size));
  if (needed_s <= budget_s) return {.size = row.image_size};
  return {.size = std::clamp(kSmallSize, static_cast<int>(info.min_image_size), row.image_size)};
}

/// Images that weigh `weight` or a little less, but clearly more than the first where the row's allow it.
Images second_images(const RowPlan& row, const Images& first, double weight, int most) {
  if (weight >= 1) return {.count = std::min(static_cast<int>(weight), most), .size = row.image_size};
  const int size = static_cast<int>(std::sqrt(weight) * row.image_size) / kSizeStep * kSizeStep;
  return {.size = std::clamp(size, std::min(2 * first.size, row.image_size), row.image_size)};
}

/// Seconds of the steps with some images.
struct Tried {
  double build_s = 0;
  double first_s = 0;
  double step_s = 0;
  double optimizer_s = 0;
};

/// Network and input of a row of one rank.
class Sampler {
 public:
  Sampler(RowPlan row, const Images& images) : row_(with(std::move(row), images)) {}

  /// Steps until `end_s`, at least `least` after the first.
  Tried run(int least, double end_s) {
    const double begin_s = now_s();
    RowTrainee trainee(row_, nullptr, nullptr, {.blank = true});
    const double build_s = now_s() - begin_s;
    const Tried first = step(trainee);
    Tried shortest = step(trainee);
    for (int steps = 1; steps < least || (steps < kMostTries && now_s() + shortest.step_s < end_s); ++steps) {
      const Tried next = step(trainee);
      if (next.step_s < shortest.step_s) shortest = next;
    }
    return {.build_s = build_s,
            .first_s = first.step_s,
            .step_s = shortest.step_s,
            .optimizer_s = std::min(shortest.optimizer_s, shortest.step_s)};
  }

 private:
  static RowPlan with(RowPlan row, const Images& images) {
    row.batch_per_rank = images.count;
    row.image_size = images.size;
    return row;
  }

  Tried step(RowTrainee& trainee) {
    const double before_s = processor_s();
    const StepLoopResult result = trainee.train({.warmup_steps = 0, .steps = 1}, /*coupled=*/true,
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
};

}  // namespace

StepSample sample_steps(const RowPlan& row, int most_images, double budget_s) {
  const double end_s = now_s() + budget_s;
  const RowPlan single = alone(row);
  const double guess_s = guessed_image_s(models::info_of(row.model), row.image_size);
  const Images few = first_images(row, budget_s);
  const Tried one = Sampler(single, few).run(kLeastOfFirst, now_s() + budget_s / 3);
  // Where reading weights takes most of the time of one image, further ones cost little.
  const double image_s = std::min((one.step_s - one.optimizer_s) / few.weight(row), 3 * guess_s);
  StepSample sample{.fixed_s = std::max(0.0, one.step_s - image_s * few.weight(row)),
                    .per_image_s = image_s,
                    .build_s = one.build_s,
                    .first_s = std::max(0.0, one.first_s - one.step_s),
                    .images = few.count};
  const double further = ((end_s - now_s()) / kTryOfSecond - one.step_s) / std::min(image_s, guess_s);
  const double weight = few.weight(row) + std::max(few.weight(row), further);
  const Images many = second_images(row, few, weight, most_images);
  if (many.weight(row) <= few.weight(row)) return sample;
  const Tried several = Sampler(single, many).run(kLeastOfSecond, end_s);
  const double mean_s = several.step_s / many.weight(row);
  sample.per_image_s = std::clamp((several.step_s - one.step_s) / (many.weight(row) - few.weight(row)),
                                  std::min(mean_s, guess_s / 3), mean_s);
  sample.fixed_s = several.step_s - many.weight(row) * sample.per_image_s;
  sample.images = many.count;
  return sample;
}

}  // namespace lockstep::train
