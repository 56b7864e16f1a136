#include "lockstep/topology/gpu_watch.h"

#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>

namespace lockstep::topology {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

GpuSample sample(double clock_mhz, std::vector<std::string> slowed_by = {}) {
  GpuSample made;
  made.sm_clock_mhz = clock_mhz;
  made.max_sm_clock_mhz = 1980;
  made.slowed_by = std::move(slowed_by);
  return made;
}

TEST(GpuUseTest, of_several_samples_the_middle_and_both_ends_are_kept) {
  const GpuUse odd = summarize({sample(1500), sample(1980), sample(1200)});
  EXPECT_EQ(odd.samples, 3);
  EXPECT_EQ(odd.sm_clock_mhz, (Spread{1200, 1500, 1980}));
  EXPECT_EQ(odd.max_sm_clock_mhz, 1980);
  EXPECT_EQ(summarize({sample(1500), sample(1980), sample(1200), sample(1600)}).sm_clock_mhz,
            (Spread{1200, 1550, 1980}));
}

TEST(GpuUseTest, what_slowed_it_down_is_counted_by_reason_and_in_all) {
  const GpuUse use = summarize({sample(1), sample(1, {"power cap"}),
                                sample(1, {"hardware thermal slowdown", "power cap"}), sample(1)});
  EXPECT_DOUBLE_EQ(use.slowed_share, 0.5);
  EXPECT_THAT(use.slowed_by,
              ElementsAre(Slowdown{"power cap", 0.5}, Slowdown{"hardware thermal slowdown", 0.25}));
}

TEST(GpuUseTest, what_the_driver_does_not_tell_stays_empty) {
  GpuSample silent;
  const GpuUse use = summarize({silent, sample(1500), silent});
  EXPECT_EQ(use.sm_clock_mhz, (Spread{1500, 1500, 1500}));
  EXPECT_FALSE(use.power_w);
  EXPECT_FALSE(use.memory_bytes);
  EXPECT_THAT(use.slowed_by, IsEmpty());
  EXPECT_EQ(summarize({}), GpuUse());
}

/// A sampler whose n-th sample says n.
GpuWatch::Sampler counting() {
  return [asked = 0]() mutable { return sample(asked++); };
}

void wait_for_samples() {
  std::this_thread::sleep_for(std::chrono::milliseconds(450));
}

TEST(GpuWatchTest, samples_are_taken_from_begin_to_end) {
  GpuWatch watch(counting());
  wait_for_samples();
  const GpuUse use = watch.finish(1000);
  EXPECT_GE(use.samples, 2);
  EXPECT_LE(use.samples, 6);
  EXPECT_EQ(use.sm_clock_mhz->least, 0);
  EXPECT_EQ(use.sm_clock_mhz->most, use.samples - 1);
}

TEST(GpuWatchTest, what_came_before_the_last_seconds_is_left_out) {
  GpuWatch watch(counting());
  wait_for_samples();
  const GpuUse use = watch.finish(0.25);
  EXPECT_GE(use.samples, 1);
  EXPECT_GT(use.sm_clock_mhz->least, 0);
}

TEST(GpuWatchTest, of_less_than_a_period_the_last_sample_is_there) {
  GpuWatch watch(counting());
  wait_for_samples();
  const GpuUse use = watch.finish(0);
  EXPECT_EQ(use.samples, 1);
  EXPECT_GT(use.sm_clock_mhz->least, 0);
}

TEST(GpuWatchTest, ends_without_being_asked) {
  const GpuWatch watch(counting());
}

TEST(FakeNvmlWatchTest, a_gpu_that_slows_down_is_seen_slowing_down) {
  ::setenv("LOCKSTEP_FAKE_NVML", "slowing", 1);
  const auto nvml = std::make_shared<const Nvml>(LOCKSTEP_FAKE_NVML_LIBRARY);
  ASSERT_EQ(nvml->gpus(), 1);
  GpuWatch watch([nvml] { return nvml->sample(0); });
  wait_for_samples();
  const GpuUse use = watch.finish(1000);
  ASSERT_GE(use.samples, 2);
  EXPECT_EQ(use.sm_clock_mhz->most, 1980);
  EXPECT_EQ(use.sm_clock_mhz->least, 1980 - 30 * (use.samples - 1));
  EXPECT_EQ(use.max_sm_clock_mhz, 1980);
  // From the second sample on.
  ASSERT_EQ(use.slowed_by.size(), 1U);
  EXPECT_EQ(use.slowed_by[0].by, "hardware thermal slowdown");
  EXPECT_NEAR(use.slowed_share, (use.samples - 1.0) / use.samples, 1e-9);
  EXPECT_EQ(use.memory_bytes, static_cast<double>(uint64_t{1} << 34));
}

TEST(GpuWatchTest, a_gpu_that_there_is_not_is_not_sampled) {
  EXPECT_FALSE(gpu_sampler(-1));
  EXPECT_FALSE(gpu_sampler(1000));
}

}  // namespace
}  // namespace lockstep::topology
