#include "lockstep/topology/rank_gpus.h"

#include <gmock/gmock.h>

namespace lockstep::topology {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

RankGpu rank_gpu(const std::string& host, const std::string& bus_id, const std::string& uuid) {
  return {.host = host, .name = "NVIDIA Test", .pci_bus_id = bus_id, .uuid = uuid};
}

RankGpu rank_gpu(const std::string& host, const std::string& uuid) {
  return rank_gpu(host, "0000:0" + uuid + ":00.0", uuid);
}

/// Message and advice; "" if it is accepted.
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
  EXPECT_FALSE(why_gpus_clash({rank_gpu("a", "1"), rank_gpu("a", "2")}));
  // The same number on another host is another GPU.
  EXPECT_FALSE(why_gpus_clash({rank_gpu("a", ""), rank_gpu("b", "")}));
}

TEST(GpuPlacementTest, ranks_that_got_the_same_gpu_are_named_with_it) {
  const auto clash =
      why_gpus_clash({rank_gpu("a", "1"), rank_gpu("a", "2"), rank_gpu("a", "1"), rank_gpu("b", "3")});
  ASSERT_TRUE(clash);
  EXPECT_THAT(clash->what(), AllOf(HasSubstr("ranks 0 and 2 have NVIDIA Test (0000:01:00.0) of a in common"),
                                   Not(HasSubstr("rank 1")), Not(HasSubstr("of b"))));
  EXPECT_THAT(clash->advice(), HasSubstr("--share-device"));
}

TEST(RankGpusTest, a_gpu_is_shared_where_host_and_identity_are_the_same) {
  EXPECT_THAT(
      ranks_by_shared_gpu({rank_gpu("a", "1", "x"), rank_gpu("a", "1", "y"), rank_gpu("b", "1", "x")}),
      IsEmpty())
      << "slices of one GPU";
  EXPECT_THAT(ranks_by_shared_gpu({rank_gpu("a", "1", ""), rank_gpu("a", "2", ""), rank_gpu("a", "1", ""),
                                   rank_gpu("b", "1", "")}),
              ElementsAre(ElementsAre(0, 2)));
  EXPECT_THAT(ranks_by_shared_gpu({RankGpu(), RankGpu()}), IsEmpty()) << "not known is not the same";
}

TEST(RankGpusTest, many_that_share_are_told_in_few_words) {
  EXPECT_EQ(shared_gpus_text({rank_gpu("a", "1", "x"), rank_gpu("a", "2", "y")}), "");
  EXPECT_EQ(shared_gpus_text({rank_gpu("a", "1", "x"), rank_gpu("a", "1", "x"), rank_gpu("a", "1", "x")}),
            "ranks 0, 1 and 2 have NVIDIA Test (1) of a in common");
  std::vector<RankGpu> many;
  for (int rank = 0; rank < 16; ++rank) many.push_back(rank_gpu("a", "1", std::to_string(rank % 8)));
  EXPECT_THAT(shared_gpus_text(many), HasSubstr("and so on for 5 more"));
}

TEST(RankGpusTest, gpus_are_listed_by_rank) {
  EXPECT_EQ(rank_gpus_text({}), "");
  EXPECT_EQ(rank_gpus_text({rank_gpu("a", "", ""), rank_gpu("a", "", "")}), "NVIDIA Test");
  EXPECT_EQ(rank_gpus_text({rank_gpu("a", "1", "x"), rank_gpu("a", "2", "y")}), "NVIDIA Test (1|2)");
  RankGpu other = rank_gpu("a", "", "z");
  other.name = "NVIDIA Other";
  EXPECT_EQ(rank_gpus_text({rank_gpu("a", "1", "x"), other}), "NVIDIA Test|NVIDIA Other (1|?)");
  EXPECT_THAT(rank_gpus_text(std::vector<RankGpu>(20, rank_gpu("a", "1", "x"))), HasSubstr("1|..."));
}

}  // namespace
}  // namespace lockstep::topology
