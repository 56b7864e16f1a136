#include <thread>

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include "lockstep/topology/system.h"

namespace lockstep::topology {
namespace {

TEST(InspectTest, this_host_has_a_name_cores_and_memory_within_each_other) {
  const Machine machine = inspect_host();
  EXPECT_FALSE(machine.host.empty());
  EXPECT_GE(machine.cores, 1);
  EXPECT_LE(machine.cores, machine.host_cores);
  EXPECT_LE(machine.host_cores, machine.host_hardware_threads);
  EXPECT_GE(machine.host_hardware_threads, ::sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_GT(machine.available_memory_bytes, 0);
  EXPECT_LE(machine.available_memory_bytes, machine.memory_bytes);
  EXPECT_LE(machine.memory_bytes, machine.host_memory_bytes);
}

TEST(InspectTest, an_affinity_mask_of_one_hardware_thread_leaves_one_core) {
  // In a thread of its own: the mask goes with it.
  std::thread([] {
    const int host_cores = inspect_host().host_cores;
    cpu_set_t mask;
    ASSERT_EQ(::sched_getaffinity(0, sizeof mask, &mask), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &mask)) ++cpu;
    CPU_ZERO(&mask);
    CPU_SET(cpu, &mask);
    ASSERT_EQ(::sched_setaffinity(0, sizeof mask, &mask), 0);
    const Machine machine = inspect_host();
    EXPECT_EQ(machine.cores, 1);
    EXPECT_EQ(machine.hardware_threads, 1);
    EXPECT_EQ(machine.host_cores, host_cores);
  }).join();
}

}  // namespace
}  // namespace lockstep::topology
