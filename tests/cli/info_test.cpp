#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/in_process.h"

namespace lockstep {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

TEST(InfoTest, everything_that_can_be_measured_is_listed) {
  const test::Finished info = test::run_here({"lockstep", "info"});
  EXPECT_EQ(info.exit_code, 0) << info.error;
  for (const char* text : {"LibTorch 2.", "gloo", "mpi", "thread", "resnet50", "25557032", "ddp",
                           "independent", "device", "oneDNN 3."}) {
    EXPECT_THAT(info.output, HasSubstr(text));
  }
  for (const char* backend : {"thread", "gloo", "mpi"}) {
    EXPECT_THAT(info.output, ContainsRegex(std::string(backend) + " +usable"));
  }
}

TEST(InfoTest, devices_are_listed_with_what_keeps_them_from_being_used) {
  const test::Finished info = test::run_here({"lockstep", "info", "devices"});
  EXPECT_EQ(info.exit_code, 0) << info.error;
  EXPECT_THAT(info.output, ContainsRegex("cpu +usable .* cores"));
  EXPECT_THAT(info.output, ContainsRegex("cuda +not usable +[A-Za-z]"));
  // The driver is asked whatever LibTorch can do. With tests/topology/fake_nvml.cpp in its place:
  const test::Finished with_driver =
      test::run({"lockstep", "info", "devices"},
                {{"LD_LIBRARY_PATH", LOCKSTEP_FAKE_NVML_FOLDER}, {"LOCKSTEP_FAKE_NVML", "dgx1"}});
  EXPECT_EQ(with_driver.exit_code, 0) << with_driver.error;
  EXPECT_THAT(with_driver.output,
              HasSubstr("NVIDIA driver 580.65.06, for CUDA up to 13.1: Tesla V100-SXM2-16GB, Tesla V100"));
  EXPECT_THAT(test::run_here({"lockstep", "info"}).output, HasSubstr("Devices: --device\n"));
}

TEST(InfoTest, a_backend_that_is_not_there_is_listed_with_what_to_install) {
  const test::ScratchFolder empty;
  const test::Finished info =
      test::run({"lockstep", "info", "backends"}, {{"LOCKSTEP_PLUGIN_PATH", empty.path("")}});
  EXPECT_EQ(info.exit_code, 0);
  EXPECT_THAT(info.output, HasSubstr("thread       usable"));
  EXPECT_THAT(info.output, HasSubstr("gloo         not usable"));
  EXPECT_THAT(info.output, HasSubstr("mpi          not usable"));
  EXPECT_THAT(info.output, HasSubstr("nccl         not usable"));
}

#if LOCKSTEP_HAS_NCCL
// With tests/topology/fake_cuda.cpp where the loader finds NVIDIA's driver, and CUDA's own runtime.
TEST(InfoTest, a_driver_that_is_too_old_for_nccl_is_said_with_both_versions) {
  const test::Finished info =
      test::run({"lockstep", "info", "backends"},
                {{"LD_LIBRARY_PATH", LOCKSTEP_FAKE_CUDA_FOLDER}, {"LOCKSTEP_FAKE_CUDA", "old"}});
  EXPECT_EQ(info.exit_code, 0);
  EXPECT_THAT(info.output,
              ContainsRegex("nccl +not usable +the NVIDIA driver supports CUDA up to 12\\.4, but this "
                            "lockstep needs CUDA 1[2-9]\\.[0-9]"));
  EXPECT_THAT(info.output, HasSubstr("update the driver"));
}

TEST(InfoTest, an_nccl_that_cannot_be_loaded_is_named) {
  const test::ScratchFolder folder;
  std::ofstream(folder.path("libnccl.so.2")) << "not a library";
  const test::Finished info =
      test::run({"lockstep", "info", "backends"}, {{"LD_LIBRARY_PATH", folder.path("")}});
  EXPECT_EQ(info.exit_code, 0);
  EXPECT_THAT(info.output, ContainsRegex("nccl +not usable .*libnccl\\.so\\.2: file too short"));
  EXPECT_THAT(info.output, HasSubstr("install NCCL 2 (libnccl2)"));
}
#endif

TEST(InfoTest, kernels_are_listed_with_what_they_compute_and_on_what) {
  const test::Finished info = test::run_here({"lockstep", "info", "kernels"});
  EXPECT_EQ(info.exit_code, 0) << info.error;
  EXPECT_THAT(info.output, HasSubstr("aten         usable"));
  EXPECT_THAT(info.output, ContainsRegex("fused        usable .*oneDNN 3\\.[0-9]+\\.[0-9]+, [a-z0-9_]+"));
  EXPECT_THAT(info.output, HasSubstr("covers: batch normalization"));
  EXPECT_THAT(info.output, HasSubstr("covers: on GPUs batch normalization alone"));
  EXPECT_THAT(info.output, HasSubstr("left to LibTorch: local response normalization"));
  // The instructions that oneDNN may use, not all that the processor has.
  const test::Finished limited = test::run({"lockstep", "info", "kernels"}, {{"ONEDNN_MAX_CPU_ISA", "AVX2"}});
  EXPECT_THAT(limited.output, ContainsRegex("fused        usable .*oneDNN [0-9.]+, avx2\\)"));
}

struct ModelInfoCase {
  std::string model;
  std::vector<std::string> texts;
};

TEST(InfoTest, one_network_is_described) {
  const std::string references = LOCKSTEP_SOURCE_DIR "/tests/references/";
  const std::vector<ModelInfoCase> cases{
      {"resnet18",
       {"parameters      11689512 in 62 tensors", "gradients       44.6 MiB", "1814 M", "38.8 per byte",
        "224x224 by default, from 32 to 4096", "layer4.0.conv2.weight   20.2 %  512x512x3x3",
        "and 57 smaller"}},
      {references + "small.pt2",
       {"the network 'small', traced by torch.export", "exported with torch 2.11", "a sample is     1 image",
        "memory format   channels_last", "random numbers  none",
        "input0          input, 3x8x8 of float32, channels last, normal around 0",
        "target0         target, one number of int64, from 0 to 9", "2 in fp32       keeps ",
        "a step may change 3"}},
      {references + "tokens.pt2",
       {"a sample is     6 tokens", "input0          input, 6 of int64, from 0 to 39"}},
      {LOCKSTEP_OWN_NETWORK ":forecast",
       {"a network of a plugin", "built with LibTorch 2.", "a sample is     1 window",
        "series          input, 24x4 of float32, normal around 0", "Batches: any, 16 by default",
        "memory.weight_hh_l0"}},
  };
  for (const ModelInfoCase& one : cases) {
    const test::Finished info = test::run_here({"lockstep", "info", "model", one.model});
    EXPECT_EQ(info.exit_code, 0) << info.error;
    for (const std::string& text : one.texts) EXPECT_THAT(info.output, HasSubstr(text));
  }
}

}  // namespace
}  // namespace lockstep
