#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/program.h"

namespace lockstep::test {

/// A training that is killed again and again, and resumed from its last checkpoint each time.
struct KilledTraining {
  std::string strategy;
  int ranks = 2;
  int kills = 2;
  /// Kills that must happen before the training has ended, which may be fast, and a kill late.
  int least_kills = 1;
  /// Each of 4 steps; on the digits of 15.
  int epochs = 30;
  bool on_digits = false;
};

/// "ddp_on_digits"
std::string name_of(const testing::TestParamInfo<KilledTraining>& info);

/// Trains undisturbed, then with kills (SIGKILL, to the whole job by its parent or to one rank, at random
/// moments after a checkpoint was written), and expects the same bytes in the last checkpoint of both.
void expect_same_bits_after_kills(const KilledTraining& training);

}  // namespace lockstep::test
