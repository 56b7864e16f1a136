#include "lockstep/cuda_kernels/plugin.h"

#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::cuda_kernels {
namespace {

/// In this order, because a plugin that was opened stays open.
TEST(KernelsPluginTest, a_missing_one_is_a_sentence_and_one_that_is_there_opens_without_a_gpu) {
  ::setenv("LOCKSTEP_PLUGIN_PATH", "/nowhere", 1);
  try {
    open_kernels();
    FAIL() << "there is no plugin in that folder";
  } catch (const BackendMissing& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("there is no lockstep_cuda_kernels.so in /nowhere"));
    EXPECT_THAT(error.advice(), testing::HasSubstr("--kernels aten"));
  }
#ifdef LOCKSTEP_PLUGINS
  ::setenv("LOCKSTEP_PLUGIN_PATH", LOCKSTEP_PLUGINS, 1);
  const KernelsPluginV1& kernels = open_kernels();
  EXPECT_EQ(kernels.abi_version, kKernelsAbiVersion);
  // CUDA says that there is no GPU, or how many multiprocessors it has.
  try {
    EXPECT_GT(kernels.norm_workspace_bytes({.rows = 1000, .channels = 64}), 0);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("cuda"));
  }
#endif
  ::unsetenv("LOCKSTEP_PLUGIN_PATH");
}

}  // namespace
}  // namespace lockstep::cuda_kernels
