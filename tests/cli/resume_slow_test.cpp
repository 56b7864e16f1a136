#include <gtest/gtest.h>

#include "cli/killed_training.h"

namespace lockstep {
namespace {

class ManyKillsTest : public testing::TestWithParam<const char*> {};

TEST_P(ManyKillsTest, a_training_killed_twenty_times_ends_with_the_same_bits) {
  const std::string strategy = GetParam();
  test::expect_same_bits_after_kills(
      {.strategy = strategy, .ranks = strategy == "single" ? 1 : 2, .kills = 20, .epochs = 150});
}

INSTANTIATE_TEST_SUITE_P(all, ManyKillsTest, testing::Values("single", "ddp", "replicated", "sharded"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace lockstep
