#include "lockstep/launch/gpu_placement.h"

#include <gmock/gmock.h>

namespace lockstep::launch {
namespace {

using results::RankGpu;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

RankGpu gpu(const std::string& host, const std::string& uuid) {
  return {.host = host, .name = "NVIDIA Test", .pci_bus_id = "0000:0" + uuid + ":00.0", .uuid = uuid};
}

/// What and advice; "" where it is accepted.
std::string refusal(int ranks, int gpus) {
  try {
    require_enough_gpus(ranks, gpus);
  } catch (const ConfigError& error) {
    return std::string(error.what()) + ". " + error.advice();
  }
  return "";
}

TEST(GpuPlacementTest, every_rank_has_the_gpu_of_its_number_counted_round) {
  EXPECT_EQ(gpu_of_rank(0, 4), 0);
  EXPECT_EQ(gpu_of_rank(3, 4), 3);
  EXPECT_EQ(gpu_of_rank(5, 4), 1);
  // A launcher that shows every rank its own alone.
  for (const int rank : {0, 1, 7}) EXPECT_EQ(gpu_of_rank(rank, 1), 0);
}

TEST(GpuPlacementTest, more_ranks_than_gpus_are_refused_with_what_would_do) {
  EXPECT_EQ(refusal(1, 1), "");
  EXPECT_EQ(refusal(4, 4), "");
  EXPECT_EQ(
      refusal(4, 2),
      "ranks 0 to 3 of this host want 4 GPUs, but there are 2. Use --ranks 1,2, more hosts, --share-device "
      "with --backend gloo, or --device cpu.");
  EXPECT_THAT(refusal(2, 1), AllOf(HasSubstr("but there is 1"), HasSubstr("--ranks 1,")));
  EXPECT_THAT(refusal(8, 6), HasSubstr("--ranks 1,2,4, more hosts"));
}

TEST(GpuPlacementTest, ranks_with_gpus_of_their_own_do_not_clash) {
  EXPECT_FALSE(why_gpus_clash({}));
  EXPECT_FALSE(why_gpus_clash({gpu("a", "1"), gpu("a", "2")}));
  // The same number on another host is another GPU.
  EXPECT_FALSE(why_gpus_clash({gpu("a", ""), gpu("b", "")}));
}

TEST(GpuPlacementTest, ranks_that_got_the_same_gpu_are_named_with_it) {
  const auto clash = why_gpus_clash({gpu("a", "1"), gpu("a", "2"), gpu("a", "1"), gpu("b", "3")});
  ASSERT_TRUE(clash);
  EXPECT_THAT(clash->what(), AllOf(HasSubstr("ranks 0 and 2 have NVIDIA Test (0000:01:00.0) of a in common"),
                                   Not(HasSubstr("rank 1")), Not(HasSubstr("of b"))));
  EXPECT_THAT(clash->advice(), HasSubstr("--share-device"));
}

}  // namespace
}  // namespace lockstep::launch
