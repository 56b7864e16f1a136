#include "lockstep/train/rows/bucket_search.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/measure/interval.h"
#include "lockstep/measure/series.h"

namespace lockstep::train {
namespace {

constexpr double kGridFactor = 4;
/// Pairs of blocks: fewer say nothing, more say little more.
constexpr int kFewestPairs = 3;
constexpr int kMostPairs = 8;
constexpr int kMostRefinements = 2;

double distance(double a, double b) {
  return std::abs(std::log(a / b));
}

/// Ratios of the default's time to the other's, one a pair, as launches of one sample each.
std::vector<std::vector<double>> ratios(const std::vector<std::pair<double, double>>& blocks,
                                        double default_mb) {
  std::vector<std::vector<double>> ratios;
  for (size_t i = 0; i + 1 < blocks.size(); i += 2) {
    const auto& [first_mb, first_s] = blocks[i];
    const auto& [ignored, second_s] = blocks[i + 1];
    ratios.push_back({first_mb == default_mb ? first_s / second_s : second_s / first_s});
  }
  return ratios;
}

}  // namespace

BucketSearch::BucketSearch(const BucketSearchOptions& options) : options_(options) {
  plan_grid();
}

std::optional<double> BucketSearch::next() const {
  return queue_.empty() ? std::nullopt : std::optional(queue_.front());
}

void BucketSearch::add_block(const std::vector<double>& step_s) {
  if (queue_.empty() || step_s.empty()) throw Error("a block that nobody asked for, or without steps");
  const double cap = queue_.front();
  queue_.pop_front();
  ++blocks_;
  const double median_s = measure::median_of(step_s);
  if (stage_ == Stage::kPairs) {
    pair_blocks_.emplace_back(cap, median_s);
  } else {
    Tried& tried = tried_[cap];
    tried.step_s.insert(tried.step_s.end(), step_s.begin(), step_s.end());
    tried.block_s.push_back(median_s);
  }
  while (queue_.empty() && stage_ != Stage::kOver) next_stage();
}

bool BucketSearch::allows(size_t blocks) const {
  return blocks_ + static_cast<int>(blocks) + 2 * kFewestPairs <= options_.blocks;
}

void BucketSearch::plan_grid() {
  std::vector<double> caps;
  for (double cap = options_.least_mb; cap <= options_.most_mb; cap *= kGridFactor) caps.push_back(cap);
  // The default takes the place of the cap that is nearest to it.
  *std::ranges::min_element(caps, {}, [&](double cap) { return distance(cap, options_.default_mb); }) =
      options_.default_mb;
  // One of the caps that hold everything is enough: the default if it is among them, else the smallest.
  const double whole = options_.default_mb >= options_.payload_mb
                           ? options_.default_mb
                           : *std::ranges::find_if(caps, [&](double cap) {
                               return cap >= options_.payload_mb || cap == caps.back();
                             });
  std::erase_if(caps, [&](double cap) { return cap >= options_.payload_mb && cap != whole; });
  if (caps.size() < 2) {
    stage_ = Stage::kOver;
    return;
  }
  while (caps.size() > 1 && !allows(caps.size())) {
    caps.erase(
        std::ranges::max_element(caps, {}, [&](double cap) { return distance(cap, options_.default_mb); }));
  }
  if (caps.size() < 2) {
    too_short_ = true;
    stage_ = Stage::kOver;
    return;
  }
  queue_.assign(caps.begin(), caps.end());
}

double BucketSearch::fastest() const {
  return std::ranges::min_element(tried_, {},
                                  [](const auto& entry) { return measure::median_of(entry.second.step_s); })
      ->first;
}

void BucketSearch::next_stage() {
  switch (stage_) {
    case Stage::kGrid:
      stage_ = Stage::kAgain;
      return plan_again();
    case Stage::kAgain:
      stage_ = Stage::kRefine;
      return plan_refinement();
    case Stage::kRefine:
      if (++refinements_ < kMostRefinements) return plan_refinement();
      stage_ = Stage::kPairs;
      return plan_pairs();
    case Stage::kPairs:
    case Stage::kOver:
      stage_ = Stage::kOver;
  }
}

void BucketSearch::plan_again() {
  std::vector<double> caps;
  for (const auto& [cap, ignored] : tried_) caps.push_back(cap);
  std::ranges::sort(caps, {}, [&](double cap) { return measure::median_of(tried_.at(cap).step_s); });
  caps.resize((caps.size() + 1) / 2);
  if (!allows(caps.size())) return;
  std::ranges::sort(caps, std::ranges::greater{});
  queue_.assign(caps.begin(), caps.end());
}

double BucketSearch::midpoint(double a, double b) const {
  const double middle = std::sqrt(a * b);
  const double rounded = middle < 4 ? std::round(4 * middle) / 4 : std::round(middle);
  return std::clamp(rounded, options_.least_mb, options_.most_mb);
}

void BucketSearch::plan_refinement() {
  const double best = fastest();
  const auto at = tried_.find(best);
  std::vector<double> caps;
  if (at != tried_.begin()) caps.push_back(midpoint(std::prev(at)->first, best));
  caps.push_back(best);
  if (std::next(at) != tried_.end()) caps.push_back(midpoint(best, std::next(at)->first));
  std::erase_if(
      caps, [&](double cap) { return cap != best && (tried_.contains(cap) || cap >= options_.payload_mb); });
  if (caps.size() < 2 || !allows(caps.size())) return;
  queue_.assign(caps.begin(), caps.end());
}

void BucketSearch::plan_pairs() {
  best_mb_ = fastest();
  if (best_mb_ == options_.default_mb) return;
  const int pairs = std::clamp((options_.blocks - blocks_) / 2, kFewestPairs, kMostPairs);
  for (int pair = 0; pair < pairs; ++pair) {
    const bool default_first = pair % 2 == 0;
    queue_.push_back(default_first ? options_.default_mb : best_mb_);
    queue_.push_back(default_first ? best_mb_ : options_.default_mb);
  }
}

results::BucketTuning BucketSearch::result() const {
  results::BucketTuning result;
  result.default_mb = result.chosen_mb = options_.default_mb;
  result.best_mb = best_mb_ > 0 ? best_mb_ : options_.default_mb;
  for (const auto& [cap, tried] : tried_) {
    const auto [fastest_s, slowest_s] = std::ranges::minmax(tried.block_s);
    result.candidates.push_back({.bucket_mb = cap,
                                 .steps = static_cast<int>(tried.step_s.size()),
                                 .blocks = static_cast<int>(tried.block_s.size()),
                                 .step_s = measure::median_of(tried.step_s),
                                 .fastest_block_s = fastest_s,
                                 .slowest_block_s = slowest_s});
  }
  if (too_short_) {
    result.reason =
        fmt::format("the budget allows {} blocks of steps, too few to compare any", options_.blocks);
  } else if (tried_.empty()) {
    result.reason = fmt::format("all gradients fit into a bucket of {:g} MiB", options_.least_mb);
  } else if (pair_blocks_.empty()) {
    result.reason = "no other was faster";
  }
  if (!result.reason.empty()) return result;

  const measure::Estimate speedup = measure::mean_estimate(ratios(pair_blocks_, options_.default_mb));
  result.speedup = speedup.value;
  result.speedup_low = speedup.interval->lower;
  result.speedup_high = speedup.interval->upper;
  if (*result.speedup_low > 1) {
    result.chosen_mb = best_mb_;
    result.reason = fmt::format("it is faster than {:g}", options_.default_mb);
  } else if (*result.speedup_high < 1) {
    result.reason = fmt::format("{:g} was only by chance the faster", best_mb_);
  } else {
    result.reason = fmt::format("{:g} cannot be told apart from it", best_mb_);
  }
  return result;
}

}  // namespace lockstep::train
