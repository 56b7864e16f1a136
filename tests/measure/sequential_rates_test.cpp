// How often a comparison that runs until it is certain errs, although it looks several times.

#include <gtest/gtest.h>

#include "measure/turns.h"

namespace lockstep::measure {
namespace {

using synthetic::Machine;
using synthetic::Rates;
using synthetic::rates_of;

TEST(SequentialRatesTest, equals_are_hardly_ever_told_apart_however_long_it_takes) {
  const Machine machines[] = {{.noise = 0.005},
                              {.noise = 0.01},
                              {.noise = 0.03},
                              {.noise = 0.1},
                              {.noise = 0.01, .drift = 0.002},
                              {.noise = 0.01, .walk = 0.01},
                              {.noise = 0.01, .outlier_every = 10}};
  unsigned seed = 60;
  for (const Machine& machine : machines) {
    const Rates rates = rates_of(machine, ++seed);
    EXPECT_LE(rates.differs_percent, 6) << seed;
    EXPECT_LE(rates.regression_percent, 3) << seed;
    EXPECT_GE(rates.held_percent, 94) << seed;
  }
}

TEST(SequentialRatesTest, quiet_machines_learn_soon_that_nothing_differs) {
  const Rates rates = rates_of({.noise = 0.01}, 70);
  EXPECT_GE(rates.below_percent, 93);
  EXPECT_LE(rates.mean_pairs, 14);
}

TEST(SequentialRatesTest, a_slow_down_of_5_percent_is_found) {
  const Machine machines[] = {{.factor = 1.05, .noise = 0.005},
                              {.factor = 1.05, .noise = 0.01},
                              {.factor = 1.05, .noise = 0.03},
                              {.factor = 1.05, .noise = 0.01, .drift = 0.002},
                              {.factor = 1.05, .noise = 0.01, .walk = 0.01}};
  unsigned seed = 80;
  for (const Machine& machine : machines) {
    const Rates rates = rates_of(machine, ++seed);
    EXPECT_GE(rates.regression_percent, 97) << seed;
    EXPECT_GE(rates.held_percent, 94) << seed;
  }
  EXPECT_LE(rates_of(machines[1], 90).mean_pairs, 7);
}

}  // namespace
}  // namespace lockstep::measure
