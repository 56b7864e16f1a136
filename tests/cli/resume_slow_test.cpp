#include <gtest/gtest.h>

#include "cli/killed_training.h"

namespace lockstep {
namespace {

class ManyKillsTest : public testing::TestWithParam<test::KilledTraining> {};

TEST_P(ManyKillsTest, a_training_killed_twenty_times_ends_with_the_same_bits) {
  test::KilledTraining training = GetParam();
  training.kills = 25;
  training.least_kills = 20;
  training.epochs = training.on_digits ? 50 : 200;
  test::expect_same_bits_after_kills(training);
}

INSTANTIATE_TEST_SUITE_P(
    all, ManyKillsTest,
    testing::Values(test::KilledTraining{.strategy = "single", .ranks = 1},
                    test::KilledTraining{.strategy = "ddp"}, test::KilledTraining{.strategy = "replicated"},
                    test::KilledTraining{.strategy = "sharded"},
                    test::KilledTraining{.strategy = "ddp", .on_digits = true},
                    test::KilledTraining{.strategy = "parameter_server", .on_digits = true}),
    test::name_of);

}  // namespace
}  // namespace lockstep
