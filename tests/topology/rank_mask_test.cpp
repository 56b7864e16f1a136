#include <gtest/gtest.h>

#include "lockstep/topology/system.h"

namespace lockstep::topology {
namespace {

Machine machine_of_one_core(const std::string& host) {
  Machine machine;
  machine.host = host;
  machine.cores = machine.hardware_threads = 1;
  machine.host_cores = machine.host_hardware_threads = 4;
  return machine;
}

TEST(RankMaskTest, the_masks_of_a_hosts_ranks_are_united_and_those_of_others_are_not) {
  std::vector<Machine> machines{machine_of_one_core("a"), machine_of_one_core("b")};
  unite_masks({{"a", {0}, {0}}, {"b", {2}, {2}}, {"a", {1}, {1, 5}}, {"a", {1}, {1}}}, machines);
  EXPECT_EQ(machines[0].cores, 2);
  EXPECT_EQ(machines[0].hardware_threads, 3);
  EXPECT_EQ(machines[1].cores, 1);
}

/// Two ranks on the two hardware threads of one core have one core.
TEST(RankMaskTest, hardware_threads_of_one_core_are_one_core) {
  std::vector<Machine> machines{machine_of_one_core("a")};
  unite_masks({{"a", {0}, {0}}, {"a", {0}, {4}}}, machines);
  EXPECT_EQ(machines[0].cores, 1);
  EXPECT_EQ(machines[0].hardware_threads, 2);
}

TEST(RankMaskTest, a_quota_limits_the_cores_and_machines_without_masks_stay) {
  std::vector<Machine> machines{machine_of_one_core("a"), machine_of_one_core("old")};
  machines[0].cpu_quota = 2.5;
  unite_masks({{"a", {0, 1}, {0, 1}}, {"a", {2, 3}, {2, 3}}}, machines);
  EXPECT_EQ(machines[0].cores, 2);
  EXPECT_EQ(machines[1].cores, 1);
}

}  // namespace
}  // namespace lockstep::topology
