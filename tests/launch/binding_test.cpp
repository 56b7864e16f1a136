#include "lockstep/launch/binding.h"

#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Lists = std::vector<std::vector<int>>;

/// Two sockets of four cores with two hardware threads each: core i has processors 2i and 2i+1.
const std::string kTwoSockets = "numa:2 core:4 pu:2";

/// The cores of a machine in hwloc's synthetic notation.
std::vector<Core> synthetic_cores(const std::string& description) {
  ::setenv("HWLOC_SYNTHETIC", description.c_str(), 1);
  std::vector<Core> cores = usable_cores();
  ::unsetenv("HWLOC_SYNTHETIC");
  return cores;
}

TEST(BindingTest, cores_come_with_their_processors_and_nodes) {
  const std::vector<Core> cores = synthetic_cores(kTwoSockets);
  ASSERT_EQ(cores.size(), 8u);
  EXPECT_THAT(cores[5].cpus, ElementsAre(10, 11));
  EXPECT_EQ(cores[3].numa_node, 0);
  EXPECT_EQ(cores[4].numa_node, 1);
}

TEST(BindingTest, ranks_get_consecutive_cores_of_their_own) {
  const BindingPlan plan = plan_binding(synthetic_cores(kTwoSockets), 4, 2, Binding::kCore);
  EXPECT_EQ(plan.cpus, (Lists{{0, 2}, {4, 6}, {8, 10}, {12, 14}}));
  EXPECT_FALSE(plan.oversubscribed);
}

TEST(BindingTest, threads_default_to_cores_over_ranks) {
  EXPECT_EQ(plan_binding(synthetic_cores(kTwoSockets), 3, 0, Binding::kCore).threads_per_rank, 2);
  EXPECT_EQ(plan_binding(synthetic_cores(kTwoSockets), 9, 0, Binding::kCore).threads_per_rank, 1);
  EXPECT_EQ(default_threads_per_rank(8, 1), 8);
  EXPECT_EQ(default_threads_per_rank(1, 4), 1);
}

TEST(BindingTest, with_more_threads_than_cores_a_rank_shares_with_itself_first) {
  const BindingPlan plan = plan_binding(synthetic_cores("core:2 pu:2"), 2, 2, Binding::kCore);
  EXPECT_EQ(plan.cpus, (Lists{{0, 1}, {2, 3}}));
  EXPECT_TRUE(plan.oversubscribed);
}

TEST(BindingTest, with_more_ranks_than_processors_they_overlap_evenly) {
  const BindingPlan plan = plan_binding(synthetic_cores("core:2 pu:1"), 5, 1, Binding::kCore);
  EXPECT_EQ(plan.cpus, (Lists{{0}, {1}, {0}, {1}, {0}}));
  EXPECT_TRUE(plan.oversubscribed);
}

TEST(BindingTest, numa_gives_whole_nodes) {
  const BindingPlan plan = plan_binding(synthetic_cores("numa:2 core:2 pu:1"), 4, 1, Binding::kNuma);
  EXPECT_EQ(plan.cpus, (Lists{{0, 1}, {0, 1}, {2, 3}, {2, 3}}));
  const BindingPlan wide = plan_binding(synthetic_cores("numa:2 core:2 pu:1"), 1, 3, Binding::kNuma);
  EXPECT_EQ(wide.cpus, (Lists{{0, 1, 2, 3}}));
}

TEST(BindingTest, none_leaves_the_ranks_alone) {
  const BindingPlan plan = plan_binding(synthetic_cores(kTwoSockets), 2, 4, Binding::kNone);
  EXPECT_THAT(plan.cpus, ElementsAre(IsEmpty(), IsEmpty()));
  EXPECT_EQ(plan.threads_per_rank, 4);
}

TEST(BindingTest, more_threads_than_the_mask_has_cores_names_the_flag) {
  try {
    plan_binding(synthetic_cores("core:2 pu:2"), 1, 3, Binding::kNone);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--threads 3: this job may use 2 cores only (processors 0-3)"));
  }
}

TEST(BindingTest, a_bound_thread_sees_only_its_processors) {
  const std::vector<Core> before = usable_cores();
  ASSERT_FALSE(before.empty());
  std::thread([&] {
    bind_this_thread({before.back().cpus.front()});
    const std::vector<Core> after = usable_cores();
    ASSERT_EQ(after.size(), 1u);
    EXPECT_THAT(after[0].cpus, ElementsAre(before.back().cpus.front()));
    // Threads started by a bound thread are bound as well.
    std::thread([&] { EXPECT_EQ(usable_cores().size(), 1u); }).join();
  }).join();
  EXPECT_EQ(usable_cores().size(), before.size());
}

TEST(BindingTest, a_processor_that_is_not_there_is_named) {
  try {
    bind_this_thread({100000});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("100000"));
  }
}

TEST(BindingTest, processors_are_written_as_ranges) {
  EXPECT_EQ(format_cpus({}), "");
  EXPECT_EQ(format_cpus({3}), "3");
  EXPECT_EQ(format_cpus({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

TEST(BindingTest, names) {
  EXPECT_EQ(binding_of("core"), Binding::kCore);
  EXPECT_EQ(binding_of("numa"), Binding::kNuma);
  EXPECT_EQ(binding_of("none"), Binding::kNone);
}

}  // namespace
}  // namespace lockstep::launch
