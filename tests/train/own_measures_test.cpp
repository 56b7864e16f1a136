#include <gtest/gtest.h>

#include "lockstep/train/rows/gather.h"

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

using strategies::Measured;
using Over = Measured::Over;

/// Rank r took r + 1 steps in 10 (r + 1) seconds, counted 5 things of a mean of r, and saw at most 7 - r.
std::vector<Measured> measured_by(int rank) {
  return {{"waited_s", 10.0 * (rank + 1)},
          {"things", 5, Over::kJob},
          {"mean", 1.0 * rank, Over::kMean, 5.0 + rank},
          {"most", 7.0 - rank, Over::kMost}};
}

TEST(OwnMeasuresTest, ranks_are_added_averaged_by_weight_or_outdone) {
  test::with_thread_ranks(3, [](comm::Communicator& group) {
    const size_t steps = static_cast<size_t>(group.rank()) + 1;
    const auto all = train::combine_measured(measured_by(group.rank()), steps, &group);
    ASSERT_EQ(all.size(), 4u);
    EXPECT_EQ(all[0].name, "waited_s");
    EXPECT_DOUBLE_EQ(all[0].value, 60.0 / 6);
    EXPECT_DOUBLE_EQ(all[1].value, 15);
    EXPECT_DOUBLE_EQ(all[2].value, (0 * 5 + 1 * 6 + 2 * 7) / 18.0);
    EXPECT_DOUBLE_EQ(all[3].value, 7);
  });
}

TEST(OwnMeasuresTest, of_nothing_there_is_no_mean) {
  const auto alone = train::combine_measured({{"mean", 0, Over::kMean, 0}, {"s", 8}}, 4, nullptr);
  EXPECT_EQ(alone[0].value, 0);
  EXPECT_EQ(alone[1].value, 2);
  EXPECT_TRUE(train::combine_measured({}, 4, nullptr).empty());
}

}  // namespace
}  // namespace lockstep
