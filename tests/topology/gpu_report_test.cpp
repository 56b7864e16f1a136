#include "lockstep/topology/gpu_report.h"

#include <gmock/gmock.h>

#include "lockstep/base/file.h"
#include "lockstep/topology/hwloc_system.h"

namespace lockstep::topology {
namespace {

using testing::ElementsAre;

GpuFacts driver_gpu(const std::string& bus_id) {
  GpuFacts facts;
  facts.name = "NVIDIA Test";
  facts.pci_bus_id = bus_id;
  return facts;
}

void add_links(GpuFacts& from, NvLink::To to, const std::string& bus_id, int count) {
  from.links.insert(from.links.end(), static_cast<size_t>(count), NvLink{to, bus_id});
}

TEST(GpuReportTest, direct_links_count_where_both_ends_have_them) {
  GpuFacts one = driver_gpu("a"), other = driver_gpu("b");
  EXPECT_EQ(nvlinks_between(one, other), 0);
  add_links(one, NvLink::To::kGpu, "b", 2);
  EXPECT_EQ(nvlinks_between(one, other), 0);
  add_links(other, NvLink::To::kGpu, "a", 1);
  add_links(other, NvLink::To::kGpu, "c", 3);
  EXPECT_EQ(nvlinks_between(one, other), 1);
  EXPECT_EQ(nvlinks_between(other, one), 1);
}

TEST(GpuReportTest, links_into_switches_connect_to_whatever_else_is_there) {
  GpuFacts one = driver_gpu("a"), other = driver_gpu("b"), alone = driver_gpu("c");
  add_links(one, NvLink::To::kSwitch, "", 18);
  add_links(other, NvLink::To::kSwitch, "", 12);
  add_links(alone, NvLink::To::kOther, "", 4);
  EXPECT_EQ(nvlinks_between(one, other), 12);
  EXPECT_EQ(nvlinks_between(one, alone), 0);
}

class MergedTest : public testing::Test {
 protected:
  MergedTest()
      : system_(system_from_xml(read_file(std::string(LOCKSTEP_GOLDEN) + "/topology/two_gpus.xml"), "a")) {}

  std::string path(const System& system, size_t row, size_t column) {
    return to_string(system.map.paths.at(row).at(column));
  }

  System system_;
};

TEST_F(MergedTest, the_driver_says_what_the_gpus_are_and_the_bus_where) {
  GpuReport report{.driver_version = "580.1", .cuda_version = "13.0"};
  // In another order than on the bus.
  report.gpus = {driver_gpu("0000:81:00.0"), driver_gpu("0000:03:00.0")};
  report.gpus[0].memory_bytes = 80;
  report.gpus[1].cpu_affinity = "0-3";
  report.pci_paths.assign(2, std::vector<Path>(2));
  const System merged = with_gpus(system_, report);
  EXPECT_EQ(merged.map.driver_version, "580.1");
  EXPECT_EQ(merged.packages.size(), 2u);
  ASSERT_EQ(merged.map.devices.size(), 6u);
  EXPECT_EQ(merged.map.devices[0].label, "GPU0");
  EXPECT_EQ(merged.map.devices[0].name, "NVIDIA Test");
  EXPECT_EQ(merged.map.devices[0].memory_bytes, 80);
  EXPECT_EQ(merged.map.devices[0].numa_node, 1);
  EXPECT_EQ(merged.map.devices[0].cpu_affinity, "8-15");
  EXPECT_EQ(merged.map.devices[1].cpu_affinity, "0-3");
  EXPECT_EQ(merged.map.devices[2].label, "mlx5_0");
  EXPECT_EQ(path(merged, 0, 0), "X");
  EXPECT_EQ(path(merged, 0, 1), "SYS");
  EXPECT_EQ(path(merged, 1, 2), "PIX");
  EXPECT_EQ(path(merged, 2, 1), "PIX");
  EXPECT_EQ(path(merged, 0, 2), "SYS");
}

TEST_F(MergedTest, nvlinks_go_before_the_drivers_word_and_that_before_the_bus) {
  GpuReport report;
  report.gpus = {driver_gpu("0000:03:00.0"), driver_gpu("0000:81:00.0")};
  report.pci_paths.assign(2, std::vector<Path>(2, Path{PathKind::kNode, 0}));
  EXPECT_EQ(path(with_gpus(system_, report), 0, 1), "NODE");
  add_links(report.gpus[0], NvLink::To::kGpu, "0000:81:00.0", 2);
  add_links(report.gpus[1], NvLink::To::kGpu, "0000:03:00.0", 2);
  EXPECT_EQ(path(with_gpus(system_, report), 0, 1), "NV2");
  EXPECT_EQ(path(with_gpus(system_, report), 0, 0), "X");
}

TEST_F(MergedTest, a_gpu_that_the_bus_does_not_show_has_unknown_paths_and_a_hidden_one_goes) {
  GpuReport report;
  report.gpus = {driver_gpu("0000:03:00.0"), driver_gpu("0001:00:00.0")};
  report.pci_paths.assign(2, std::vector<Path>(2));
  const System merged = with_gpus(system_, report);
  ASSERT_EQ(merged.map.gpus(), 2);
  EXPECT_EQ(path(merged, 0, 1), "N/A");
  EXPECT_EQ(path(merged, 1, 1), "X");
  EXPECT_EQ(path(merged, 1, 2), "N/A");
  EXPECT_EQ(path(merged, 0, 2), "PIX");
  EXPECT_EQ(with_gpus(system_, GpuReport()).map.gpus(), 0);
}

}  // namespace
}  // namespace lockstep::topology
