#include "lockstep/topology/system_files.h"

#include "topology/fake_root.h"

namespace lockstep::topology {
namespace {

constexpr const char* kVersion2Mounts =
    "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
    "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

class CgroupTest : public FakeRoot {
 protected:
  CgroupLimits limits() const { return read_cgroup_limits(root_); }
};

TEST_F(CgroupTest, without_any_group_nothing_is_limited) {
  EXPECT_FALSE(limits().cpus);
  EXPECT_FALSE(limits().memory_bytes);
  EXPECT_FALSE(limits().memory_free_bytes);
}

TEST_F(CgroupTest, version_2_takes_the_tightest_of_a_group_and_its_ancestors) {
  write("proc/self/mountinfo", kVersion2Mounts);
  write("proc/self/cgroup", "0::/user.slice/job.scope\n");
  write("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/user.slice/memory.max", "max\n");
  write("sys/fs/cgroup/user.slice/job.scope/memory.max", "1000000\n");
  write("sys/fs/cgroup/user.slice/job.scope/memory.current", "700000\n");
  write("sys/fs/cgroup/user.slice/job.scope/memory.stat", "anon 300000\ninactive_file 200000\n");
  EXPECT_DOUBLE_EQ(limits().cpus.value(), 1.5);
  EXPECT_EQ(limits().memory_bytes.value(), 1000000);
  EXPECT_EQ(limits().memory_free_bytes.value(), 500000);
}

TEST_F(CgroupTest, version_2_counts_memory_high_where_the_kernel_starts_to_throttle) {
  write("proc/self/mountinfo", kVersion2Mounts);
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/memory.max", "1000000\n");
  write("sys/fs/cgroup/job/memory.high", "800000\n");
  EXPECT_EQ(limits().memory_bytes.value(), 800000);
}

TEST_F(CgroupTest, version_1_reads_each_controller_in_its_own_hierarchy) {
  write("proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  write("proc/self/cgroup", "4:memory:/m\n2:cpu,cpuacct:/c\n1:cpuset:/\n");
  write("sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "50000\n");
  write("sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/m/memory.limit_in_bytes", "4096000\n");
  write("sys/fs/cgroup/memory/m/memory.usage_in_bytes", "96000\n");
  EXPECT_DOUBLE_EQ(limits().cpus.value(), 0.5);
  EXPECT_EQ(limits().memory_bytes.value(), 4096000);
  EXPECT_EQ(limits().memory_free_bytes.value(), 4000000);
}

TEST_F(CgroupTest, version_1_writes_minus_one_and_a_huge_number_for_no_limit) {
  write("proc/self/mountinfo", "32 31 0:29 / /cg rw - cgroup cgroup rw,cpu,memory\n");
  write("proc/self/cgroup", "2:cpu,memory:/\n");
  write("cg/cpu.cfs_quota_us", "-1\n");
  write("cg/cpu.cfs_period_us", "100000\n");
  write("cg/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(limits().cpus);
  EXPECT_FALSE(limits().memory_bytes);
}

TEST_F(CgroupTest,
       a_container_finds_its_groups_below_the_mount_point_though_they_are_named_by_the_hosts_path) {
  write("proc/self/mountinfo", "32 31 0:29 /docker/a1b2 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
  write("proc/self/cgroup", "2:cpu:/docker/a1b2/job\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(limits().cpus.value(), 2);
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(limits().cpus.value(), 1);
}

TEST_F(CgroupTest, a_group_that_lies_outside_of_what_is_mounted_is_not_looked_for_elsewhere) {
  write("proc/self/mountinfo", "30 22 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "0::/../other\n");
  write("other/cpu.max", "100000 100000\n");
  EXPECT_FALSE(limits().cpus);
}

TEST_F(CgroupTest, a_mount_point_with_a_space_is_found) {
  write("proc/self/mountinfo", "30 22 0:26 / /my\\040groups rw - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "0::/\n");
  write("my groups/cpu.max", "300000 100000\n");
  EXPECT_DOUBLE_EQ(limits().cpus.value(), 3);
}

TEST_F(CgroupTest, garbage_in_the_files_is_no_limit) {
  write("proc/self/mountinfo", "x\n\n30 22 0:26 / /cg rw - cgroup2 cgroup2 rw\n - cgroup\n");
  write("proc/self/cgroup", "nonsense\n0::/../..\n");
  write("cg/cpu.max", "fast\n");
  write("cg/memory.max", "-5\n");
  EXPECT_FALSE(limits().cpus);
  EXPECT_FALSE(limits().memory_bytes);
}

}  // namespace
}  // namespace lockstep::topology
