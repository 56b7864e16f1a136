#include "lockstep/cuda_kernels/tiles.h"

#include <vector>

#include <gtest/gtest.h>

#include "lockstep/cuda_kernels/launches.h"

namespace lockstep::cuda_kernels {
namespace {

/// Counts how often each group of each row is visited by all threads of all blocks.
std::vector<int> visits(const Tiling& tiling) {
  std::vector<int> counts(static_cast<size_t>(tiling.shape.rows * tiling.groups));
  for (int block = 0; block < tiling.blocks(); ++block) {
    for (int thread = 0; thread < kThreads; ++thread) {
      const Place place = place_of(tiling, block, thread);
      for_rows<2>(
          tiling, place, [](int64_t row) { return row; },
          [&](int64_t row, int64_t loaded) {
            EXPECT_EQ(row, loaded);
            ++counts[static_cast<size_t>(row * tiling.groups + place.group)];
          });
    }
  }
  return counts;
}

TEST(TilesTest, every_group_of_every_row_is_visited_once) {
  for (const int32_t channels : {1, 8, 9, 64, 208, 256, 257, 264, 2048, 2100}) {
    for (const int64_t rows : {1, 2, 49, 1000}) {
      for (const int blocks : {1, 7, 264}) {
        const Tiling tiling = tile({rows, channels}, channels % kGroup == 0, blocks);
        for (const int count : visits(tiling)) {
          ASSERT_EQ(count, 1) << rows << " rows of " << channels << ", at most " << blocks << " blocks";
        }
      }
    }
  }
}

TEST(TilesTest, blocks_are_as_many_as_a_gpu_holds_and_no_more_than_have_work) {
  EXPECT_EQ(tile({int64_t{256} * 56 * 56, 64}, true, 264).blocks(), 264);
  EXPECT_EQ(tile({int64_t{256} * 7 * 7, 2048}, true, 264).blocks(), 264);
  EXPECT_EQ(tile({4, 64}, true, 264).blocks(), 1);
  // A tile for every 256 channels, however few blocks there may be.
  EXPECT_EQ(tile({4, 2048}, true, 2).blocks(), 8);
}

TEST(TilesTest, only_whole_groups_of_aligned_images_are_accessed_at_once) {
  const auto access = [](int32_t channels, bool wide) {
    return place_of(tile({1, channels}, wide && channels % kGroup == 0, 1), 0, groups_of(channels) - 1)
        .access;
  };
  EXPECT_TRUE(access(24, true).wide);
  EXPECT_FALSE(access(24, false).wide);
  EXPECT_EQ(access(24, false).lanes, 8);
  EXPECT_EQ(access(19, false).lanes, 3);
  EXPECT_TRUE(aligned(reinterpret_cast<void*>(32), nullptr));
  EXPECT_FALSE(aligned(reinterpret_cast<void*>(32), reinterpret_cast<void*>(40)));
}

TEST(TilesTest, a_workspace_holds_the_sums_of_every_block) {
  // Five tiles of at most 7 groups, 8 channels each, two sums.
  const Tiling tiling = tile({1000, 34 * 8}, true, 12, kMostColumnsOfSums);
  EXPECT_EQ(tiling.blocks(), 10);
  EXPECT_EQ(workspace_bytes(tiling), kCounterBytes + 10 * 7 * 8 * 2 * 4);
  EXPECT_EQ(norm_workspace_bytes({1000, 34 * 8}, 6), workspace_bytes(tiling));
}

}  // namespace
}  // namespace lockstep::cuda_kernels
