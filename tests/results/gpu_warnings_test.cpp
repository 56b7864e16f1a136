#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/results/record/machine_warnings.h"

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using topology::GpuUse;
using topology::RankGpu;
using topology::Spread;

RankGpu gpu(const std::string& host, const std::string& bus_id, const std::string& uuid) {
  return {.host = host, .name = "NVIDIA Test", .pci_bus_id = bus_id, .uuid = uuid};
}

TEST(GpuWarningsTest, the_way_to_another_rank_changes_nothing) {
  const RankGpu known = gpu("a", "0000:06:00.0", "f0");
  EXPECT_EQ(from_bytes<RankGpu>(to_bytes(known)), known);
  EXPECT_EQ(from_bytes<RankGpu>(to_bytes(RankGpu())), RankGpu());
  const std::vector<GpuUse> uses{throttled_gpu(), GpuUse()};
  EXPECT_EQ(from_bytes<std::vector<GpuUse>>(to_bytes(uses)), uses);
  EXPECT_THAT(from_bytes<std::vector<GpuUse>>(to_bytes(std::vector<GpuUse>())), IsEmpty());
  EXPECT_THROW(from_bytes<std::vector<GpuUse>>("{}"), Error);
  EXPECT_THROW(from_bytes<std::vector<GpuUse>>(to_bytes(std::vector<std::string>{"fast"})), Error);
}

TEST(GpuWarningsTest, a_gpu_that_was_slowed_down_is_named_with_the_reasons) {
  GpuUse calm = throttled_gpu();
  calm.slowed_share = 0.04;
  calm.sm_clock_mhz = Spread{1700, 1700, 1700};
  EXPECT_THAT(gpu_warnings({calm, calm}), IsEmpty());
  const std::vector<Warning> warnings = gpu_warnings({calm, throttled_gpu()});
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_THAT(warnings[0].text,
              AllOf(HasSubstr("The GPU of rank 1 was slowed down: power cap in 25 % of the samples, hardware "
                              "thermal slowdown in 12 %."),
                    HasSubstr("1410 to 1980 of 1980 MHz")));
  EXPECT_THAT(gpu_warnings({throttled_gpu(), throttled_gpu()})[0].text,
              HasSubstr("Of 2 ranks it is the worst"));
  GpuUse without_limit = throttled_gpu();
  without_limit.max_sm_clock_mhz.reset();
  EXPECT_THAT(gpu_warnings({without_limit})[0].text, testing::Not(HasSubstr("Its clock")));
  EXPECT_THAT(gpu_warnings({GpuUse(), GpuUse()}), IsEmpty()) << "a driver that tells nothing";
}

TEST(GpuWarningsTest, a_gpu_that_is_slower_than_the_others_is_named) {
  GpuUse fast;
  fast.sm_clock_mhz = Spread{1980, 1980, 1980};
  GpuUse slow;
  slow.sm_clock_mhz = Spread{1400, 1500, 1980};
  const std::vector<Warning> warnings = gpu_warnings({fast, GpuUse(), slow, fast});
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_THAT(warnings[0].text, HasSubstr("The GPU of rank 2 ran at 1500 MHz, that of rank 0 at 1980 MHz."));
  slow.sm_clock_mhz->median = 1900;
  EXPECT_THAT(gpu_warnings({fast, slow}), IsEmpty());
}

TEST(GpuWarningsTest, sharing_a_gpu_is_said_loudly) {
  EXPECT_THAT(shared_gpu_warnings({gpu("a", "1", "x"), gpu("a", "2", "y")}), IsEmpty());
  const std::vector<Warning> warnings = shared_gpu_warnings({gpu("a", "1", "x"), gpu("a", "1", "x")});
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_TRUE(warnings[0].loud);
  EXPECT_THAT(warnings[0].text, AllOf(HasSubstr("ranks 0 and 1 have NVIDIA Test"), HasSubstr("take turns")));
}

}  // namespace
}  // namespace lockstep::results
