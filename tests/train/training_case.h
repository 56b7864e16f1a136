#pragma once

#include <string>

#include <gtest/gtest.h>

#include "lockstep/train/training/training.h"

#include "scratch_folder.h"

namespace lockstep::train {

/// A small training for tests.
struct Kind {
  std::string strategy;
  int ranks = 2;
  strategies::StrategyOptions options = {};
  std::string model = "lenet5";
  /// A folder; empty: the input `device`.
  std::string data = {};
};

/// Batches of 4, buckets small enough for several, a cosine after an epoch of warm-up, 3 epochs: of 4 steps
/// each, or of one pass over the data.
TrainingPlan plan_of(const Kind& kind);

/// Trains with threads as ranks; what rank 0 has at the end.
TrainingResult train_ranks(const TrainingPlan& plan);

/// A test with a folder of its own, removed at the end.
class TrainingTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }

  /// Trains `plan` undisturbed with a checkpoint after every step, and again stopped after each of these
  /// steps and resumed: the last checkpoints must have the same bytes.
  void expect_same_bits_resumed(TrainingPlan plan, const std::vector<int64_t>& stops) const;

 private:
  test::ScratchFolder folder_;
};

}  // namespace lockstep::train
