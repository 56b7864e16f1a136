#include "lockstep/base/no_gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

BackendMissing thrown_for(const NoGpu& found) {
  try {
    throw_no_gpu(found);
  } catch (const BackendMissing& error) {
    return error;
  }
}

TEST(NoGpuTest, versions_read_as_nvidia_writes_them) {
  EXPECT_EQ(cuda_version_text(12040), "12.4");
  EXPECT_EQ(cuda_version_text(13000), "13.0");
}

TEST(NoGpuTest, says_which_of_driver_version_and_gpu_is_missing) {
  NoGpu found{.reason = "cudaErrorInsufficientDriver: of no use",
              .driver_too_old = true,
              .driver_version = 0,
              .runtime_version = 13000,
              .runtime_of = "this lockstep"};
  EXPECT_THAT(thrown_for(found).what(), HasSubstr("no NVIDIA driver"));
  EXPECT_THAT(thrown_for(found).what(), HasSubstr("cudaErrorInsufficientDriver: of no use"));

  found.driver_version = 12020;
  EXPECT_THAT(thrown_for(found).what(), HasSubstr("CUDA up to 12.2, but this lockstep needs CUDA 13.0"));
  EXPECT_EQ(thrown_for(found).advice(), "update the driver");

  // Within a major version, CUDA runs over older drivers too.
  found.driver_version = 12040;
  found.runtime_version = 12060;
  found.driver_too_old = false;
  EXPECT_THAT(thrown_for(found).what(), HasSubstr("sees no NVIDIA GPU"));
  EXPECT_THAT(thrown_for(found).advice(), HasSubstr("CUDA_VISIBLE_DEVICES"));
}

}  // namespace
}  // namespace lockstep
