#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/units.h"
#include "lockstep/strategies/buckets.h"

namespace lockstep::strategies {
namespace {

using replica::FlatMemory;
using replica::Init;
using replica::Parameters;
using testing::ElementsAre;

/// Parameters of so many elements each.
Parameters parameters_of(const std::vector<int64_t>& sizes) {
  Parameters parameters(1, at::MemoryFormat::Contiguous);
  for (size_t i = 0; i < sizes.size(); ++i) {
    parameters.add("p" + std::to_string(i), {sizes[i]}, Init::normal(1));
  }
  return parameters;
}

std::vector<int64_t> bytes_of(const std::vector<Bucket>& buckets) {
  std::vector<int64_t> bytes;
  for (const Bucket& bucket : buckets) bytes.push_back(4 * bucket.range.count());
  return bytes;
}

TEST(BucketPlanTest, large_tensors_are_split_and_the_last_bucket_is_small) {
  Parameters parameters = parameters_of({kMiB, kMiB / 4, kMiB});
  const FlatMemory memory(parameters, {2, 1, 0});
  const std::vector<Bucket> buckets = plan_buckets(memory, 3 * kMiB);
  EXPECT_THAT(bytes_of(buckets), ElementsAre(3 * kMiB, 3 * kMiB, 2 * kMiB, kMiB));
  EXPECT_THAT(buckets[0].parameters, ElementsAre(2u));
  EXPECT_THAT(buckets[1].parameters, ElementsAre(2u, 1u, 0u));
  EXPECT_THAT(buckets[2].parameters, ElementsAre(0u));
  EXPECT_THAT(buckets[3].parameters, ElementsAre(0u));
}

TEST(BucketPlanTest, what_fits_into_the_small_one_is_one_bucket) {
  Parameters parameters = parameters_of({10, 20, 30});
  const FlatMemory memory(parameters, {0, 1, 2});
  const std::vector<Bucket> buckets = plan_buckets(memory, 25 * kMiB);
  EXPECT_THAT(bytes_of(buckets), ElementsAre(240));
  EXPECT_THAT(buckets[0].parameters, ElementsAre(0u, 1u, 2u));
}

TEST(BucketPlanTest, buckets_divide_by_what_they_have_to) {
  Parameters parameters = parameters_of({7, 1, 500, 33, 2, 1000});
  const FlatMemory memory(parameters, {5, 0, 3, 1, 4, 2}, 7);
  for (const int64_t cap_bytes : {1, 44, 1000, 1 << 20}) {
    int64_t end = 0;
    for (const Bucket& bucket : plan_buckets(memory, cap_bytes, {.multiple_of = 7})) {
      EXPECT_EQ(bucket.range.begin, end);
      EXPECT_EQ(bucket.range.count() % 7, 0) << cap_bytes;
      EXPECT_LE(bucket.range.count(), std::max<int64_t>(7, cap_bytes / 4));
      end = bucket.range.end;
    }
    EXPECT_EQ(end, memory.padded_count());
  }
}

TEST(BucketPlanTest, a_part_of_the_memory_can_be_cut) {
  Parameters parameters = parameters_of({100, 50, 30, 20});
  const FlatMemory memory(parameters, {0, 1, 2, 3});
  const std::vector<Bucket> buckets = plan_buckets(memory, 4 * 60, {.within = replica::Range{100, 180}});
  EXPECT_THAT(bytes_of(buckets), ElementsAre(4 * 20, 4 * 60));
  EXPECT_EQ(buckets.front().range.begin, 100);
  EXPECT_THAT(buckets[0].parameters, ElementsAre(1u));
  EXPECT_THAT(buckets[1].parameters, ElementsAre(1u, 2u));
  EXPECT_TRUE(plan_buckets(memory, 240, {.within = replica::Range{180, 180}}).empty());
}

TEST(BucketPlanTest, every_element_is_in_one_bucket_whatever_the_cap) {
  Parameters parameters = parameters_of({7, 1, 500, 33, 2, 1000});
  const FlatMemory memory(parameters, {5, 0, 3, 1, 4, 2});
  for (const int64_t cap_bytes : {1, 4, 40, 44, 1000, 6000, 1 << 20}) {
    const std::vector<Bucket> buckets = plan_buckets(memory, cap_bytes);
    int64_t end = 0;
    for (const Bucket& bucket : buckets) {
      EXPECT_EQ(bucket.range.begin, end);
      EXPECT_GT(bucket.range.count(), 0) << cap_bytes;
      EXPECT_LE(bucket.range.count(), std::max<int64_t>(1, cap_bytes / 4));
      end = bucket.range.end;
      for (size_t parameter = 0; parameter < 6; ++parameter) {
        const replica::Range range = memory.range_of(parameter);
        const bool overlaps = range.begin < bucket.range.end && bucket.range.begin < range.end;
        EXPECT_EQ(overlaps, testing::Value(bucket.parameters, testing::Contains(parameter)));
      }
    }
    EXPECT_EQ(end, memory.count());
  }
}

}  // namespace
}  // namespace lockstep::strategies
