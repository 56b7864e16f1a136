#include "lockstep/results/record/machine_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/units.h"

namespace lockstep::results {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Machine quiet_machine() {
  Machine machine;
  machine.host = "node1";
  machine.cores = machine.host_cores = machine.hardware_threads = machine.host_hardware_threads = 4;
  machine.load_average = 0.1;
  machine.governor = "performance";
  return machine;
}

constexpr HostPlan kFits{.ranks = 2, .threads_per_rank = 2};

TEST(MachineWarningsTest, a_quiet_machine_with_room_for_all_ranks_has_none) {
  EXPECT_THAT(machine_warnings(quiet_machine(), kFits), IsEmpty());
}

TEST(MachineWarningsTest, more_threads_than_cores_is_said_loudly_with_what_would_fit) {
  const auto warnings = machine_warnings(quiet_machine(), {.ranks = 3, .threads_per_rank = 2});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].loud);
  EXPECT_THAT(warnings[0].text, HasSubstr("3 ranks of 2 threads need 6 cores, but there are 4 usable cores"));
  EXPECT_THAT(warnings[0].advice, HasSubstr("--ranks up to 2"));
}

TEST(MachineWarningsTest, other_load_counts_from_half_a_task_on) {
  Machine machine = quiet_machine();
  machine.load_average = 0.5;
  EXPECT_THAT(machine_warnings(machine, kFits), IsEmpty());
  machine.load_average = 0.51;
  EXPECT_EQ(machine_warnings(machine, kFits).size(), 1u);
  machine.host_hardware_threads = 256;
  EXPECT_THAT(machine_warnings(machine, kFits), IsEmpty()) << "some task always runs on a large host";
}

TEST(MachineWarningsTest, quota_swap_and_governor_are_named_with_an_advice) {
  Machine machine = quiet_machine();
  machine.cpu_quota = 2.5;
  machine.cores = 2;
  machine.swap_used_bytes = kGiB;
  machine.governor = "powersave";
  const auto warnings = machine_warnings(machine, {.ranks = 2, .threads_per_rank = 1});
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_THAT(warnings[0].text, HasSubstr("2.50 of the 4 hardware threads"));
  EXPECT_THAT(warnings[1].text, HasSubstr("1.0 GiB of swap"));
  EXPECT_THAT(warnings[2].text, HasSubstr("powersave"));
  for (const Warning& warning : warnings) {
    EXPECT_FALSE(warning.advice.empty());
    EXPECT_FALSE(warning.loud);
  }
}

}  // namespace
}  // namespace lockstep::results
