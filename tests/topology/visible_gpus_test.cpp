#include <cstdlib>

#include <gmock/gmock.h>

#include "lockstep/topology/device_map.h"

namespace lockstep::topology {
namespace {

using testing::IsEmpty;

/// With fake_cuda.cpp in place of NVIDIA's library.
std::vector<VisibleGpu> fake_gpus(const char* playing) {
  ::setenv("LOCKSTEP_FAKE_CUDA", playing, 1);
  return visible_gpus(LOCKSTEP_FAKE_CUDA_LIBRARY);
}

TEST(VisibleGpusTest, without_a_driver_there_are_none) {
  EXPECT_THAT(visible_gpus("libno-such-cuda.so.1"), IsEmpty());
  // A library that is none of NVIDIA's.
  EXPECT_THAT(visible_gpus("libm.so.6"), IsEmpty());
}

TEST(FakeCudaTest, a_driver_without_gpus_shows_none) {
  EXPECT_THAT(fake_gpus("none"), IsEmpty());
}

TEST(FakeCudaTest, gpus_come_in_cudas_order_with_what_finds_them_elsewhere) {
  const std::vector<VisibleGpu> gpus = fake_gpus("two");
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].name, "NVIDIA Test 0");
  EXPECT_EQ(gpus[0].pci_bus_id, "0000:6b:00.0");
  EXPECT_EQ(gpus[1].pci_bus_id, "0000:6a:00.0");
  EXPECT_EQ(gpus[0].uuid, "f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe00");
  EXPECT_EQ(gpus[1].uuid, "f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe01");
  EXPECT_EQ(gpus[1].memory_bytes, (int64_t{1} << 34) + 1);
}

TEST(FakeCudaTest, a_gpu_of_which_nothing_is_told_counts_all_the_same) {
  const std::vector<VisibleGpu> gpus = fake_gpus("bare");
  ASSERT_EQ(gpus.size(), 1U);
  EXPECT_EQ(gpus[0].name, "");
  EXPECT_EQ(gpus[0].pci_bus_id, "");
  EXPECT_EQ(gpus[0].uuid, "");
  EXPECT_EQ(gpus[0].memory_bytes, 0);
}

}  // namespace
}  // namespace lockstep::topology
