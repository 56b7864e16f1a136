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
/// Images of a step that is tried, where the row has as many: with fewer the kernels take other algorithms
/// (kernels/winograd.h).
constexpr int kImages = 4;
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

/// Of the row's size if tries of so many and of twice as many fit into the budget, else small ones.
Images first_images(const RowPlan& row, double budget_s) {
  const models::ModelInfo& info = models::info_of(row.model);
  const int count = std::min(kImages, row.batch_per_rank);
  const double images_s = count * guessed_image_s(info, row.image_size);
  const double needed_s = kTryOfFirst * (guessed_fixed_s(info) + images_s) +
                          kTryOfSecond * (guessed_fixed_s(info) + 2 * images_s);
  if (needed_s <= budget_s) return {.count = count, .size = row.image_size};
  return {.count = count,
          .size = std::clamp(kSmallSize, static_cast<int>(info.min_image_size), row.image_size)};
}

/// Images that weigh `weight` or a little less, but clearly more than the first where the row's allow it.
Images second_images(const RowPlan& row, const Images& first, double weight) {
  if (weight >= first.count)
    return {.count = std::min(static_cast<int>(weight), row.batch_per_rank), .size = row.image_size};
  const int size = static_cast<int>(std::sqrt(weight / first.count) * row.image_size) / kSizeStep * kSizeStep;
  return {.count = first.count,
          .size = std::clamp(size, std::min(2 * first.size, row.image_size), row.image_size)};
}

/// Seconds of a step, and the part of it that the optimizer takes.
struct StepTime {
  double step_s = 0;
  double optimizer_s = 0;
};

StepTime time_step(RowTrainee& trainee) {
  launch::Progress progress;
  const double before_s = processor_s();
  const StepLoopResult result =
      trainee.train({.warmup_steps = 0, .steps = 1}, /*coupled=*/true, /*stamp_phases=*/true, progress);
  // Other programs lengthen the step, but not the processor time of its threads.
  const double busy_s = kIdleThreads * (processor_s() - before_s) / at::get_num_threads();
  StepTime time{.step_s = std::min(result.step_s.front(), busy_s)};
  if (!result.stamps.empty()) {
    const double share = time.step_s / result.step_s.front();
    time.optimizer_s = share * (result.stamps.front().applied_s - result.stamps.front().combined_s);
  }
  return time;
}

/// Seconds to build a network with its input, of its first step, and of the shortest later one.
struct Tried {
  double build_s = 0;
  double first_s = 0;
  StepTime shortest;
};

/// Steps of the row with these images until `end_s`, at least `least` after the first.
Tried try_steps(RowPlan row, const Images& images, int least, double end_s) {
  row.batch_per_rank = images.count;
  row.image_size = images.size;
  const double begin_s = now_s();
  RowTrainee trainee(row, nullptr, nullptr, {.blank = true});
  Tried tried{.build_s = now_s() - begin_s};
  tried.first_s = time_step(trainee).step_s;
  tried.shortest = time_step(trainee);
  for (int steps = 1; steps < least || (steps < kMostTries && now_s() + tried.shortest.step_s < end_s);
       ++steps) {
    tried.shortest = std::ranges::min(tried.shortest, time_step(trainee), {}, &StepTime::step_s);
  }
  return tried;
}

}  // namespace

StepSample sample_steps(const RowPlan& row, double budget_s) {
  const double end_s = now_s() + budget_s;
  const RowPlan single = alone(row);
  const double guess_s = guessed_image_s(models::info_of(row.model), row.image_size);
  const Images few = first_images(row, budget_s);
  const double few_weight = few.weight(row);
  const Tried first = try_steps(single, few, kLeastOfFirst, now_s() + budget_s / 3);
  const auto [few_s, optimizer_s] = first.shortest;
  // Where reading weights takes most of the time of one image, further ones cost little.
  const double image_s = std::min((few_s - std::min(optimizer_s, few_s)) / few_weight, 3 * guess_s);
  StepSample sample{.fixed_s = std::max(0.0, few_s - image_s * few_weight),
                    .per_image_s = image_s,
                    .build_s = first.build_s,
                    .first_s = std::max(0.0, first.first_s - few_s),
                    .images = few.count};
  const double further = ((end_s - now_s()) / kTryOfSecond - few_s) / std::min(image_s, guess_s);
  const Images many = second_images(row, few, few_weight + std::max(few_weight, further));
  const double many_weight = many.weight(row);
  if (many_weight <= few_weight) return sample;
  const double many_s = try_steps(single, many, kLeastOfSecond, end_s).shortest.step_s;
  const double mean_s = many_s / many_weight;
  sample.per_image_s =
      std::clamp((many_s - few_s) / (many_weight - few_weight), std::min(mean_s, guess_s / 3), mean_s);
  sample.fixed_s = many_s - many_weight * sample.per_image_s;
  sample.images = many.count;
  return sample;
}

}  // namespace lockstep::train
