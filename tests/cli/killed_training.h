#pragma once

#include <string>
#include <vector>

#include "cli/program.h"

namespace lockstep::test {

/// A training that is killed again and again, and resumed from its last checkpoint each time.
struct KilledTraining {
  std::string strategy;
  int ranks = 2;
  int kills = 3;
  /// Of 4 steps.
  int epochs = 30;
};

/// Trains undisturbed, then with kills (SIGKILL, to the whole job by its parent or to one rank, at random
/// moments after a checkpoint was written), and expects the same bytes in the last checkpoint of both.
void expect_same_bits_after_kills(const KilledTraining& training);

}  // namespace lockstep::test
