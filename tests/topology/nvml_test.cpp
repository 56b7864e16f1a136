#include "lockstep/topology/nvml.h"

#include <cstdlib>

#include <gmock/gmock.h>

#include "lockstep/topology/system.h"

namespace lockstep::topology {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// With fake_nvml.cpp in place of NVIDIA's library.
Nvml fake(const char* playing) {
  ::setenv("LOCKSTEP_FAKE_NVML", playing, 1);
  return Nvml(LOCKSTEP_FAKE_NVML_LIBRARY);
}

/// Row by row.
std::vector<std::string> path_words(const DeviceMap& map) {
  std::vector<std::string> rows;
  for (const std::vector<Path>& row : map.paths) {
    std::string& text = rows.emplace_back();
    for (const Path& path : row) text += (text.empty() ? "" : " ") + to_string(path);
  }
  return rows;
}

TEST(NvmlTest, a_missing_library_is_a_reason_and_no_error) {
  const Nvml nvml("libno-such-nvml.so.1");
  EXPECT_THAT(nvml.why_not(), AllOf(HasSubstr("libno-such-nvml.so.1"), HasSubstr("no NVIDIA driver")));
  EXPECT_EQ(nvml.gpus(), 0);
  EXPECT_EQ(nvml.index_of("0000:01:00.0"), std::nullopt);
  EXPECT_THAT(nvml.map().devices, IsEmpty());
}

TEST(NvmlTest, a_library_that_is_none_of_nvidias_is_a_reason) {
  // Any other that every machine has.
  EXPECT_THAT(Nvml("libm.so.6").why_not(), AllOf(HasSubstr("libm.so.6"), HasSubstr("nvmlInit_v2")));
  EXPECT_THAT(Nvml("/proc/self/status").why_not(), HasSubstr("cannot be loaded"));
}

TEST(NvmlTest, a_machine_without_a_driver_is_inspected_all_the_same) {
  const Nvml nvml;
  if (nvml.why_not().empty()) {
    EXPECT_EQ(inspect_system().map.gpus(), nvml.gpus());
    EXPECT_EQ(inspect_gpus().gpus(), nvml.gpus());
  } else {
    const System system = inspect_system();
    EXPECT_EQ(system.why_no_gpus, nvml.why_not());
    EXPECT_FALSE(system.packages.empty());
    EXPECT_THAT(inspect_gpus().devices, IsEmpty());
  }
}

TEST(FakeNvmlTest, a_driver_that_does_not_run_is_a_reason_in_its_own_words) {
  const Nvml nvml = fake("no_driver");
  EXPECT_EQ(nvml.why_not(), "the NVIDIA driver does not answer: Driver Not Loaded");
  EXPECT_EQ(nvml.gpus(), 0);
}

TEST(FakeNvmlTest, nvlinks_of_a_cube_mesh) {
  const Nvml nvml = fake("dgx1");
  ASSERT_EQ(nvml.why_not(), "");
  const DeviceMap map = nvml.map();
  EXPECT_EQ(map.driver_version, "580.65.06");
  EXPECT_EQ(map.cuda_version, "13.1");
  ASSERT_EQ(map.devices.size(), 8u);
  EXPECT_EQ(map.devices[0].name, "Tesla V100-SXM2-16GB");
  EXPECT_EQ(map.devices[0].pci_bus_id, "0000:60:00.0");
  EXPECT_EQ(map.devices[0].memory_bytes, int64_t{1} << 34);
  EXPECT_EQ(map.devices[0].cpu_affinity, "0-19,40-59");
  EXPECT_EQ(map.devices[7].cpu_affinity, "20-39,60-79");
  EXPECT_EQ(map.devices[7].numa_node, 1);
  EXPECT_THAT(path_words(map), ElementsAre("X NV1 NV1 NV2 NV2 SYS SYS SYS", "NV1 X NV2 NV1 SYS NV2 SYS SYS",
                                           "NV1 NV2 X NV2 SYS SYS NV1 SYS", "NV2 NV1 NV2 X SYS SYS SYS NV1",
                                           "NV2 SYS SYS SYS X NV1 NV1 NV2", "SYS NV2 SYS SYS NV1 X NV2 NV1",
                                           "SYS SYS NV1 SYS NV1 NV2 X NV2", "SYS SYS SYS NV1 NV2 NV1 NV2 X"));
}

TEST(FakeNvmlTest, links_into_switches_that_the_machine_does_not_show) {
  EXPECT_THAT(path_words(fake("switches").map()),
              ElementsAre("X NV18 NV18 NV18", "NV18 X NV18 NV18", "NV18 NV18 X NV18", "NV18 NV18 NV18 X"));
}

TEST(FakeNvmlTest, without_nvlinks_the_common_ancestor_says_how_near_two_are) {
  EXPECT_EQ(path_words(fake("pcie").map())[0], "X PIX PHB PHB SYS SYS SYS SYS");
}

TEST(FakeNvmlTest, gpus_of_others_are_left_out) {
  const Nvml nvml = fake("hidden");
  ASSERT_EQ(nvml.gpus(), 1);
  EXPECT_EQ(nvml.map().devices[0].pci_bus_id, "0000:61:00.0");
}

TEST(FakeNvmlTest, a_gpu_is_found_by_its_place_on_the_bus) {
  const Nvml nvml = fake("dgx1");
  EXPECT_EQ(nvml.index_of("00000000:63:00.0"), 3);
  EXPECT_EQ(nvml.index_of("63:00.0"), 3);
  EXPECT_EQ(nvml.index_of("0000:01:00.0"), std::nullopt);
}

TEST(FakeNvmlTest, a_sample_has_units_and_what_slows_the_gpu_down) {
  const GpuSample sample = fake("dgx1").sample(0);
  EXPECT_EQ(sample.sm_clock_mhz, 1290);
  EXPECT_EQ(sample.max_sm_clock_mhz, 1530);
  EXPECT_EQ(sample.memory_clock_mhz, 877);
  EXPECT_EQ(sample.temperature_c, 71);
  EXPECT_EQ(sample.power_w, 299.5);
  EXPECT_EQ(sample.power_limit_w, 300);
  EXPECT_EQ(sample.kernel_share, 0.98);
  EXPECT_EQ(sample.memory_share, 0.4);
  EXPECT_EQ(sample.memory_used_bytes, int64_t{1} << 32);
  EXPECT_EQ(sample.memory_bytes, int64_t{1} << 34);
  EXPECT_THAT(sample.slowed_by, ElementsAre("power cap", "software thermal slowdown"));
}

TEST(FakeNvmlTest, what_a_driver_does_not_tell_stays_empty) {
  const Nvml nvml = fake("bare");
  ASSERT_EQ(nvml.gpus(), 1);
  const GpuSample sample = nvml.sample(0);
  EXPECT_FALSE(sample.sm_clock_mhz);
  EXPECT_FALSE(sample.power_w);
  EXPECT_FALSE(sample.memory_bytes);
  EXPECT_THAT(sample.slowed_by, IsEmpty());
  EXPECT_EQ(sample.temperature_c, 45);
  const DeviceMap map = nvml.map();
  EXPECT_EQ(map.devices[0].name, "");
  EXPECT_FALSE(map.devices[0].numa_node);
  EXPECT_THAT(path_words(map), ElementsAre("X"));
}

LinkedGpu driver_gpu(const std::string& bus_id) {
  LinkedGpu gpu;
  gpu.pci_bus_id = bus_id;
  return gpu;
}

void add_links(LinkedGpu& from, NvLink::To to, const std::string& bus_id, int count) {
  from.links.insert(from.links.end(), static_cast<size_t>(count), NvLink{to, bus_id});
}

TEST(NvlinksTest, direct_links_count_where_both_ends_have_them) {
  LinkedGpu one = driver_gpu("a"), other = driver_gpu("b");
  EXPECT_EQ(nvlinks_between(one, other), 0);
  add_links(one, NvLink::To::kGpu, "b", 2);
  EXPECT_EQ(nvlinks_between(one, other), 0);
  add_links(other, NvLink::To::kGpu, "a", 1);
  add_links(other, NvLink::To::kGpu, "c", 3);
  EXPECT_EQ(nvlinks_between(one, other), 1);
  EXPECT_EQ(nvlinks_between(other, one), 1);
}

TEST(NvlinksTest, links_into_switches_connect_to_whatever_else_is_there) {
  LinkedGpu one = driver_gpu("a"), other = driver_gpu("b"), alone = driver_gpu("c");
  add_links(one, NvLink::To::kSwitch, "", 18);
  add_links(other, NvLink::To::kSwitch, "", 12);
  add_links(alone, NvLink::To::kOther, "", 4);
  EXPECT_EQ(nvlinks_between(one, other), 12);
  EXPECT_EQ(nvlinks_between(one, alone), 0);
}

TEST(NvmlTest, idleness_slows_nothing_down_and_an_unknown_reason_is_shown_as_it_is) {
  EXPECT_THAT(slowdown_names(0x1), IsEmpty());
  EXPECT_THAT(slowdown_names(0x1 | 0x40), ElementsAre("hardware thermal slowdown"));
  EXPECT_THAT(slowdown_names(0x8 | 0x1000), ElementsAre("hardware slowdown", "reason 0x1000"));
}

}  // namespace
}  // namespace lockstep::topology
