#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/results/record/replica_state.h"

namespace lockstep::train {

struct BucketSearchOptions {
  double least_mb = 0.5;
  double most_mb = 128;
  /// The cap that the winner is compared with in the end, and that stays if nothing is better.
  double default_mb = 25;
  /// MiB of gradients: any cap that holds all of them makes the same buckets.
  double payload_mb = 0;
  /// How many blocks of steps may be measured.
  int blocks = 40;
};

/// Finds the cap of a bucket with the shortest steps, by measuring blocks of steps in turn. It decides what
/// is measured next, and is told what came of it; whoever measures, and on how many ranks, is not its
/// concern.
///
/// 1. A geometric grid of caps (0.5, 2, 8, 25, 128 MiB), a block each; the faster half again, the other way
///    round, so that a drift of the machine favours none.
/// 2. The caps half-way (geometrically) to the neighbours of the fastest, in turn with it; twice.
/// 3. The fastest of these against the default, in new pairs of blocks in turn: the fastest of many is partly
///    luck, so what it was chosen by does not count. A t interval on the logarithms of the pairs' ratios says
///    whether they can be told apart; where they cannot, the default stays.
///
/// When there are too few blocks for all of it, refinement is cut first, then the grid; never the pairs.
class BucketSearch {
 public:
  explicit BucketSearch(const BucketSearchOptions& options);

  /// The cap to measure a block with, in MiB; the same until told. Nothing: the search is over.
  std::optional<double> next() const;
  /// The step times of the block asked for; not empty.
  void add_block(const std::vector<double>& step_s);

  /// After the search. The budget is the caller's to fill in.
  results::BucketTuning result() const;

  /// Blocks told so far.
  int blocks() const { return blocks_; }

 private:
  enum class Stage { kGrid, kAgain, kRefine, kPairs, kOver };

  struct Tried {
    std::vector<double> step_s;
    /// Medians.
    std::vector<double> block_s;
  };

  void plan_grid();
  void next_stage();
  void plan_again();
  void plan_refinement();
  void plan_pairs();
  double fastest() const;
  bool allows(size_t blocks) const;
  double midpoint(double a, double b) const;

  BucketSearchOptions options_;
  Stage stage_ = Stage::kGrid;
  std::deque<double> queue_;
  /// By cap; of the stages before the pairs.
  std::map<double, Tried> tried_;
  /// Cap and median of each block of the pairs, in order.
  std::vector<std::pair<double, double>> pair_blocks_;
  double best_mb_ = 0;
  int blocks_ = 0;
  int refinements_ = 0;
  bool too_short_ = false;
};

}  // namespace lockstep::train
