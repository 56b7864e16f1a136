#include "lockstep/replica/accelerator.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/replica/torch_cuda.h"

#include "scratch_folder.h"

// LibTorch, driver and GPUs depend on the machine: each case holds on all of them.

namespace lockstep::replica {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

BackendMissing thrown_when_opened(const std::filesystem::path& folder) {
  try {
    open_torch_cuda_of(folder);
  } catch (const BackendMissing& error) {
    return error;
  }
  return BackendMissing("nothing was thrown");
}

TEST(AcceleratorTest, says_what_there_is_or_what_is_missing) {
  const AcceleratorStatus status = accelerator_status();
  if (status.usable) {
    EXPECT_GE(status.count, 1);
    EXPECT_THAT(status.detail, HasSubstr("LibTorch 2."));
    EXPECT_THAT(status.detail, HasSubstr("with CUDA "));
    EXPECT_TRUE(open_accelerator(0)->device().is_cuda());
    EXPECT_THROW(open_accelerator(status.count), ConfigError);
    EXPECT_THROW(open_accelerator(-1), ConfigError);
    return;
  }
  EXPECT_EQ(status.count, 0);
  EXPECT_THAT(status.advice, Not(IsEmpty()));
  if (!std::filesystem::exists(torch_library_folder() / "libtorch_cuda.so")) {
    EXPECT_THAT(status.detail, HasSubstr("is for CPUs only"));
  } else {
    EXPECT_THAT(status.detail, AnyOf(HasSubstr("cannot be loaded"), HasSubstr("NVIDIA driver"),
                                     HasSubstr("sees no NVIDIA GPU")));
  }
  try {
    open_accelerator(0);
    ADD_FAILURE() << "a GPU was opened";
  } catch (const BackendMissing& error) {
    EXPECT_EQ(error.what(), status.detail);
    EXPECT_EQ(error.advice(), status.advice);
  }
}

TEST(AcceleratorTest, a_plugin_that_is_missing_for_recording_is_named_before_anything_is_recorded) {
  const test::ScratchFolder folder;
  ::setenv("LOCKSTEP_PLUGIN_PATH", folder.path().c_str(), 1);
  try {
    require_recording();
    ADD_FAILURE() << "recording is possible";
  } catch (const BackendMissing& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no lockstep_cuda_graph.so in " + folder.path().string()));
    EXPECT_THAT(error.advice(), HasSubstr("leave out --cuda-graph"));
  }
  ::unsetenv("LOCKSTEP_PLUGIN_PATH");
}

TEST(TorchCudaTest, finds_the_libtorch_that_it_runs_with) {
  EXPECT_TRUE(std::filesystem::exists(torch_library_folder() / "libtorch_cpu.so")) << torch_library_folder();
}

TEST(TorchCudaTest, a_libtorch_for_cpus_says_how_to_take_another) {
  const test::ScratchFolder folder;
  const BackendMissing error = thrown_when_opened(folder.path());
  EXPECT_THAT(error.what(), HasSubstr("in " + folder.path().string() + " is for CPUs only"));
  EXPECT_THAT(error.advice(), HasSubstr("LOCKSTEP_TORCH=PATH make setup"));
}

TEST(TorchCudaTest, a_part_that_cannot_be_loaded_says_why) {
  const test::ScratchFolder folder;
  std::ofstream(folder.path() / "libtorch_cuda.so") << "not a library";
  const BackendMissing error = thrown_when_opened(folder.path());
  EXPECT_THAT(error.what(), HasSubstr("cannot be loaded"));
  EXPECT_THAT(error.what(), HasSubstr("libtorch_cuda.so: file too short"));
  EXPECT_THAT(error.advice(), HasSubstr("--no-deps"));
}

}  // namespace
}  // namespace lockstep::replica
