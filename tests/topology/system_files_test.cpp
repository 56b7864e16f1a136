#include "lockstep/topology/system_files.h"

#include <gmock/gmock.h>

#include "topology/fake_root.h"

namespace lockstep::topology {
namespace {

using testing::ElementsAre;

class SystemFilesTest : public FakeRoot {
 protected:
  Machine machine() const {
    Machine machine;
    read_system_files(machine, root_);
    return machine;
  }
};

TEST_F(SystemFilesTest, a_system_without_any_of_the_files_leaves_everything_empty) {
  const Machine found = machine();
  EXPECT_EQ(found.os, "");
  EXPECT_EQ(found.host_memory_bytes, 0);
  EXPECT_FALSE(found.load_average);
  EXPECT_FALSE(found.max_frequency_mhz);
  EXPECT_TRUE(found.gpus.empty());
}

TEST_F(SystemFilesTest, names_of_system_kernel_and_processor) {
  write("etc/os-release", "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
  write("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
  write(
      "proc/cpuinfo",
      "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9R14\nflags\t\t: fpu sse2\n\nprocessor\t: 1\n");
  EXPECT_EQ(machine().os, "Debian GNU/Linux 12 (bookworm)");
  EXPECT_EQ(machine().kernel, "6.1.0-18-amd64");
  EXPECT_EQ(machine().processor, "AMD EPYC 9R14");
  EXPECT_FALSE(machine().virtual_machine);
}

TEST_F(SystemFilesTest, a_virtual_machine_is_known_by_its_processor_flag) {
  write("proc/cpuinfo", "flags\t\t: fpu hypervisor sse2\n");
  EXPECT_TRUE(machine().virtual_machine);
}

TEST_F(SystemFilesTest, memory_and_swap_in_bytes) {
  write("proc/meminfo",
        "MemTotal:       24684084 kB\nMemFree:  1 kB\nMemAvailable:   23796440 kB\n"
        "SwapCached:            0 kB\nSwapTotal:       2000 kB\nSwapFree:         500 kB\n");
  EXPECT_EQ(machine().host_memory_bytes, int64_t{24684084} * 1024);
  EXPECT_EQ(machine().memory_bytes, int64_t{24684084} * 1024);
  EXPECT_EQ(machine().available_memory_bytes, int64_t{23796440} * 1024);
  EXPECT_EQ(machine().swap_used_bytes, 1500 * 1024);
}

TEST_F(SystemFilesTest, load_governor_frequency_and_pages) {
  write("proc/loadavg", "1.27 0.08 0.03 5/103 6462\n");
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  write("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3500000\n");
  write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  EXPECT_DOUBLE_EQ(machine().load_average.value(), 1.27);
  EXPECT_EQ(machine().governor, "powersave");
  EXPECT_DOUBLE_EQ(machine().max_frequency_mhz.value(), 3500);
  EXPECT_EQ(machine().transparent_hugepages, "madvise");
}

TEST_F(SystemFilesTest, gpus_are_named_by_the_driver) {
  write("proc/driver/nvidia/gpus/0000:c1:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 1\n");
  write("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA A100-SXM4-40GB\n");
  EXPECT_THAT(machine().gpus, ElementsAre("NVIDIA A100-SXM4-40GB", "NVIDIA H200"));
}

TEST_F(SystemFilesTest, gpus_are_counted_by_their_devices_where_the_driver_is_not_visible) {
  write("dev/nvidia0", "");
  write("dev/nvidia1", "");
  write("dev/nvidiactl", "");
  EXPECT_EQ(machine().gpus.size(), 2u);
}

}  // namespace
}  // namespace lockstep::topology
