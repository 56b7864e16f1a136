#include "lockstep/train/rows/tune.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/units.h"
#include "lockstep/measure/interval.h"
#include "lockstep/measure/series.h"
#include "lockstep/models/model.h"
#include "lockstep/strategies/strategy.h"
#include "lockstep/train/rows/row_trainee.h"

namespace lockstep::train {
namespace {

/// Buckets are laid out anew after the first step, and the second uses them for the first time.
constexpr int kBlockWarmup = 2;
constexpr int kFewestSteps = 3;
constexpr int kMostSteps = 30;
constexpr int kWantedBlocks = 36;
constexpr int kMostBlocks = 48;

double from_rank_0(double value, comm::Communicator& group) {
  group.broadcast(comm::host_buffer(&value, 1), 0)->wait();
  return value;
}

/// The steps of the job, on all ranks. Collective.
std::vector<double> measure_block(RowPlan row, double bucket_mb, int steps, const RankGroup& ranks,
                                  launch::Progress& progress) {
  progress.begin(fmt::format("tuning buckets, {}, of {}", results::mebibytes_text(bucket_mb), row.label()));
  row.bucket_mb = bucket_mb;
  row.verify_every = 0;
  RowTrainee trainee(row, ranks);
  std::vector<double> step_s =
      trainee.train({.warmup_steps = kBlockWarmup, .steps = steps}, true, false, progress).step_s;
  ranks.control->all_reduce(comm::host_buffer(step_s.data(), step_s.size()), comm::ReduceOp::kMax)->wait();
  return step_s;
}

/// From the times of a first block, which counts for nothing else. Collective.
TuningPlan find_plan(const RowPlan& row, const RankGroup& ranks, launch::Progress& progress) {
  const double begin_s = now_s();
  const std::vector<double> step_s = measure_block(row, row.bucket_mb, kFewestSteps, ranks, progress);
  const double took_s = now_s() - begin_s;
  const double median_s = measure::median_of(step_s);
  const double setup_s = std::max(0.0, took_s - (kBlockWarmup + kFewestSteps) * median_s);
  const TuningPlan plan = plan_tuning(row.tune_budget_s - took_s, setup_s, median_s);
  std::array<int64_t, 2> agreed{plan.blocks, plan.steps};
  ranks.control->broadcast(comm::host_buffer(agreed.data(), agreed.size()), 0)->wait();
  return {.blocks = static_cast<int>(agreed[0]), .steps = static_cast<int>(agreed[1])};
}

constexpr double kGridFactor = 4;
/// Pairs of blocks; fewer have no interval, more hardly narrow it.
constexpr int kFewestPairs = measure::kFewestLaunches;
constexpr int kMostPairs = 8;
constexpr int kRefinements = 2;

double distance(double a, double b) {
  return std::abs(std::log(a / b));
}

class BucketSearch {
 public:
  BucketSearch(const BucketSearchOptions& options, const MeasureBlock& measure)
      : options_(options), measure_(measure) {}

  results::BucketTuning run() {
    results::BucketTuning result;
    result.default_mb = result.chosen_mb = result.best_mb = options_.default_mb;
    result.reason = measure_grid();
    if (!result.reason.empty()) return result;
    measure_faster_half();
    for (int i = 0; i < kRefinements; ++i) refine();
    result.best_mb = fastest();
    for (const auto& [cap, tried] : tried_) {
      const auto [fastest_s, slowest_s] = std::ranges::minmax(tried.block_s);
      result.candidates.push_back({.bucket_mb = cap,
                                   .steps = static_cast<int>(tried.step_s.size()),
                                   .blocks = static_cast<int>(tried.block_s.size()),
                                   .step_s = measure::median_of(tried.step_s),
                                   .fastest_block_s = fastest_s,
                                   .slowest_block_s = slowest_s});
    }
    if (result.best_mb == options_.default_mb) {
      result.reason = "no other was faster";
    } else {
      compare_with_default(result);
    }
    return result;
  }

 private:
  /// The blocks of a cap, without those of the pairs.
  struct Tried {
    std::vector<double> step_s;
    /// Medians.
    std::vector<double> block_s;
  };

  std::vector<double> measure_block(double cap) {
    ++blocks_;
    return measure_(cap);
  }

  void try_caps(const std::vector<double>& caps) {
    for (const double cap : caps) {
      const std::vector<double> step_s = measure_block(cap);
      Tried& tried = tried_[cap];
      tried.step_s.insert(tried.step_s.end(), step_s.begin(), step_s.end());
      tried.block_s.push_back(measure::median_of(step_s));
    }
  }

  /// Whether so many blocks leave enough for the pairs.
  bool allows(size_t blocks) const {
    return blocks_ + static_cast<int>(blocks) + 2 * kFewestPairs <= options_.blocks;
  }

  /// Returns the reason where there are not two caps to compare.
  std::string measure_grid() {
    std::vector<double> caps;
    for (double cap = options_.least_mb; cap <= options_.most_mb; cap *= kGridFactor) caps.push_back(cap);
    const auto from_default = [&](double cap) { return distance(cap, options_.default_mb); };
    // The default takes the place of the nearest cap.
    *std::ranges::min_element(caps, {}, from_default) = options_.default_mb;
    // One of the caps that hold everything is enough: the default if it is among them, else the smallest.
    const double whole = options_.default_mb >= options_.payload_mb
                             ? options_.default_mb
                             : *std::ranges::find_if(caps, [&](double cap) {
                                 return cap >= options_.payload_mb || cap == caps.back();
                               });
    std::erase_if(caps, [&](double cap) { return cap >= options_.payload_mb && cap != whole; });
    if (caps.size() < 2) return fmt::format("all gradients fit into a bucket of {:g} MiB", options_.least_mb);
    while (caps.size() > 1 && !allows(caps.size())) {
      caps.erase(std::ranges::max_element(caps, {}, from_default));
    }
    if (caps.size() < 2)
      return fmt::format("the budget allows {} blocks of steps, too few to compare any", options_.blocks);
    try_caps(caps);
    return "";
  }

  void measure_faster_half() {
    std::vector<double> caps;
    for (const auto& [cap, ignored] : tried_) caps.push_back(cap);
    std::ranges::sort(caps, {}, [&](double cap) { return measure::median_of(tried_.at(cap).step_s); });
    caps.resize((caps.size() + 1) / 2);
    std::ranges::sort(caps, std::ranges::greater{});
    if (allows(caps.size())) try_caps(caps);
  }

  double fastest() const {
    const auto median_s = [](const auto& entry) { return measure::median_of(entry.second.step_s); };
    return std::ranges::min_element(tried_, {}, median_s)->first;
  }

  double midpoint(double a, double b) const {
    const double middle = std::sqrt(a * b);
    const double rounded = middle < 4 ? std::round(4 * middle) / 4 : std::round(middle);
    return std::clamp(rounded, options_.least_mb, options_.most_mb);
  }

  void refine() {
    const double best = fastest();
    const auto at = tried_.find(best);
    std::vector<double> caps;
    if (at != tried_.begin()) caps.push_back(midpoint(std::prev(at)->first, best));
    caps.push_back(best);
    if (std::next(at) != tried_.end()) caps.push_back(midpoint(best, std::next(at)->first));
    std::erase_if(caps, [&](double cap) {
      return cap != best && (tried_.contains(cap) || cap >= options_.payload_mb);
    });
    if (caps.size() >= 2 && allows(caps.size())) try_caps(caps);
  }

  void compare_with_default(results::BucketTuning& result) {
    const int pairs = std::clamp((options_.blocks - blocks_) / 2, kFewestPairs, kMostPairs);
    // The default's time over the other's, as launches of one sample each.
    std::vector<std::vector<double>> ratios;
    for (int pair = 0; pair < pairs; ++pair) {
      const bool default_first = pair % 2 == 0;
      const double first_s =
          measure::median_of(measure_block(default_first ? options_.default_mb : result.best_mb));
      const double second_s =
          measure::median_of(measure_block(default_first ? result.best_mb : options_.default_mb));
      ratios.push_back({default_first ? first_s / second_s : second_s / first_s});
    }
    const measure::Estimate speedup = measure::mean_estimate(ratios);
    result.speedup = speedup.value;
    result.speedup_low = speedup.interval->lower;
    result.speedup_high = speedup.interval->upper;
    if (*result.speedup_low > 1) {
      result.chosen_mb = result.best_mb;
      result.reason = fmt::format("it is faster than {:g}", options_.default_mb);
    } else if (*result.speedup_high < 1) {
      result.reason = fmt::format("{:g} was only by chance the faster", result.best_mb);
    } else {
      result.reason = fmt::format("{:g} cannot be told apart from it", result.best_mb);
    }
  }

  const BucketSearchOptions& options_;
  const MeasureBlock& measure_;
  std::map<double, Tried> tried_;
  int blocks_ = 0;
};

}  // namespace

TuningPlan plan_tuning(double budget_s, double setup_s, double step_s) {
  const double steps = (budget_s / kWantedBlocks - setup_s) / step_s - kBlockWarmup;
  TuningPlan plan;
  plan.steps = static_cast<int>(std::clamp<double>(std::floor(steps), kFewestSteps, kMostSteps));
  const double block_s = setup_s + (kBlockWarmup + plan.steps) * step_s;
  plan.blocks = static_cast<int>(std::clamp<double>(std::floor(budget_s / block_s), 0, kMostBlocks));
  return plan;
}

bool has_cap_to_tune(const RowPlan& row) {
  return row.ranks > 1 && traits_of(row).has_buckets;
}

results::BucketTuning tune_buckets(const RowPlan& row, const RankGroup& ranks, launch::Progress& progress,
                                   const std::optional<TuningPlan>& plan) {
  comm::Communicator& group = *ranks.control;
  const TuningPlan measured = plan ? *plan : find_plan(row, ranks, progress);
  const int64_t bytes = 4 * models::info_of(row.model).parameters;
  const auto measure = [&](double cap) {
    return measure_block(row, from_rank_0(cap, group), measured.steps, ranks, progress);
  };
  constexpr double kSearchOver = 0;
  results::BucketTuning tuning;
  if (group.rank() == 0) {
    tuning = search_buckets({.least_mb = measured.least_mb,
                             .default_mb = row.bucket_mb,
                             .payload_mb = static_cast<double>(bytes) / static_cast<double>(kMiB),
                             .blocks = measured.blocks},
                            measure);
    from_rank_0(kSearchOver, group);
  } else {
    while (const double cap = from_rank_0(kSearchOver, group))
      measure_block(row, cap, measured.steps, ranks, progress);
  }
  tuning.budget_s = row.tune_budget_s;
  tuning.chosen_mb = from_rank_0(tuning.chosen_mb, group);
  return tuning;
}

results::BucketTuning search_buckets(const BucketSearchOptions& options, const MeasureBlock& measure) {
  return BucketSearch(options, measure).run();
}

}  // namespace lockstep::train
