#include "lockstep/train/job/kernel_trials.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/models/model.h"
#include "lockstep/train/rows/row_trainee.h"

namespace lockstep::train {
namespace {

using results::KernelTrial;

/// The ratio of times above which they are as good as equal.
constexpr double kTie = 0.98;
constexpr double kBudget_s = 3;
/// Images of a step whose whole batch would take longer; with fewer, kernels take other algorithms
/// (kernels/winograd.h).
constexpr int kFewImages = 4;
/// Steps of either choice: that memory takes to settle, that show whether the whole batch fits, and the most.
constexpr int kFewestRounds = 2;
constexpr int kFewRounds = 3;
constexpr int kMostRounds = 1000;

/// Seconds of trying that tell times of this ratio apart.
double enough_s(double fused_s, double aten_s) {
  const double ratio = std::max(fused_s, aten_s) / std::min(fused_s, aten_s);
  return ratio > 1.3 ? 0.2 : ratio > 1.1 ? 0.5 : 1;
}

/// Seconds of the shortest step of a batch with either choice, of which `images` are tried: at most `rounds`
/// steps of each in turn, and as many as fit into `budget_s`.
KernelTrial try_images(RowPlan row, int images, int rounds, double budget_s) {
  const double begin_s = now_s();
  const double share = static_cast<double>(row.batch_per_rank) / images;
  row.batch_per_rank = images;
  row.strategy = results::kSingle;
  row.parsed_options = {};
  row.ranks = row.accumulate = 1;
  row.input = "device";
  row.verify_every = 0;
  // Values that stay the same cannot diverge.
  row.learning_rate = 0;
  RowTrainee trainee(row, nullptr);
  launch::Progress progress;
  const auto step_s = [&](const char* kernels) {
    // The trainee looks at its row in every train().
    row.kernels = kernels;
    const StepLoopResult result =
        trainee.train({.warmup_steps = 0, .steps = 1}, /*coupled=*/true, /*stamp_phases=*/false, progress);
    return share * result.step_s.front();
  };
  const auto step_of_each = [&] { return KernelTrial{.fused_s = step_s("fused"), .aten_s = step_s("aten")}; };
  // The first steps make primitives and map memory, and count only where there is no time for others; fused
  // ones make more, so that they are the faster if they look it.
  KernelTrial best = step_of_each();
  const double warm_s = now_s();
  for (int round = 0; round < rounds; ++round) {
    const double next_s = (best.fused_s + best.aten_s) / share;
    const bool in_time = now_s() - begin_s + next_s < budget_s;
    if (!in_time && (round > 0 || best.fused_s < best.aten_s)) break;
    if (round >= kFewestRounds && now_s() - warm_s > enough_s(best.fused_s, best.aten_s)) break;
    const KernelTrial now = step_of_each();
    best = round == 0 ? now
                      : KernelTrial{.fused_s = std::min(best.fused_s, now.fused_s),
                                    .aten_s = std::min(best.aten_s, now.aten_s)};
  }
  return best;
}

/// The same on this rank for as many images as there is time for.
KernelTrial try_kernels(const RowPlan& row) {
  const double begin_s = now_s();
  const int few = std::min(kFewImages, row.batch_per_rank);
  if (few == row.batch_per_rank) return try_images(row, few, kMostRounds, kBudget_s);
  const KernelTrial found = try_images(row, few, kFewRounds, kBudget_s);
  const double left_s = kBudget_s - (now_s() - begin_s);
  const bool fits = 3 * (found.fused_s + found.aten_s) < left_s;
  return fits ? try_images(row, row.batch_per_rank, kMostRounds, left_s) : found;
}

KernelTrial about(const RowPlan& row) {
  return {.model = row.model,
          .precision = row.precision,
          .image_size = row.image_size,
          .global_batch = row.global_batch,
          .batch_per_rank = row.global_batch > 0 ? 0 : row.batch_per_rank};
}

/// The slowest rank's times on all ranks.
void take_slowest(KernelTrial& trial, const JobPlan& job, const JobRank& rank, size_t number) {
  const std::chrono::duration<double> patience{job.site.options.timeout_s};
  const auto key_of = [&](int of) { return fmt::format("kernels/{}/{}", number, of); };
  const int own = rank.environment.rank;
  if (own > 0) {
    rank.store.set(key_of(own), to_bytes(trial));
    trial = from_bytes<KernelTrial>(rank.store.get(key_of(0), patience));
    return;
  }
  for (int other = 1; other < job.ranks; ++other) {
    const auto theirs = from_bytes<KernelTrial>(rank.store.get(key_of(other), patience));
    trial.fused_s = std::max(trial.fused_s, theirs.fused_s);
    trial.aten_s = std::max(trial.aten_s, theirs.aten_s);
  }
  rank.store.set(key_of(0), to_bytes(trial));
}

}  // namespace

const char* faster_kernels(double fused_s, double aten_s) {
  return aten_s < kTie * fused_s ? "aten" : "fused";
}

std::vector<KernelTrial> choose_kernels(JobPlan& job, const JobRank* rank, std::vector<KernelTrial> earlier) {
  const auto is_open = [](const RowPlan& row) { return row.kernels == kernels::kAuto; };
  if (std::ranges::none_of(job.rows, is_open)) return {};
  if (rank != nullptr) {
    constexpr const char* kKey = "kernels/earlier";
    if (rank->environment.rank == 0) rank->store.set(kKey, to_bytes(earlier));
    earlier = from_bytes<std::vector<KernelTrial>>(
        rank->store.get(kKey, std::chrono::duration<double>(job.site.options.timeout_s)));
  }
  std::vector<KernelTrial> all;
  for (RowPlan& row : job.rows) {
    if (!is_open(row)) continue;
    const KernelTrial wanted = about(row);
    const auto of_row = [&](const KernelTrial& trial) { return trial.same_rows(wanted); };
    auto known = std::ranges::find_if(all, of_row);
    if (known == all.end()) {
      const auto before = std::ranges::find_if(earlier, of_row);
      KernelTrial trial = wanted;
      if (before != earlier.end()) {
        trial = *before;
      } else {
        KernelTrial tried;
        if (rank == nullptr || rank->environment.rank < job.ranks) tried = try_kernels(row);
        if (rank != nullptr) take_slowest(tried, job, *rank, all.size());
        trial.fused_s = tried.fused_s;
        trial.aten_s = tried.aten_s;
        trial.kernels = faster_kernels(tried.fused_s, tried.aten_s);
      }
      known = all.insert(all.end(), std::move(trial));
    }
    row.kernels = known->kernels;
  }
  return all;
}

}  // namespace lockstep::train
