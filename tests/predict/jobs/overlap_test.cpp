#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/predict/jobs/job_model.h"

namespace lockstep::predict {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

TEST(OverlapTest, a_collective_waits_for_its_bytes_and_for_the_one_before) {
  const std::vector<QueuedCollective> queue{{2, 3}, {4, 1}, {9, 2}};
  const OverlapEnd end = overlap(queue, 9, {});
  EXPECT_THAT(end.ended_s, ElementsAre(DoubleEq(5), DoubleEq(6), DoubleEq(11)));
  EXPECT_DOUBLE_EQ(end.computed_s, 9);
}

TEST(OverlapTest, computing_is_stretched_while_a_collective_runs) {
  const std::vector<QueuedCollective> queue{{2, 3}};
  // Three busy seconds bring two of the eight that are left.
  EXPECT_DOUBLE_EQ(overlap(queue, 10, {.compute = 0.5}).computed_s, 11);
  // The queue outlasts computing.
  EXPECT_DOUBLE_EQ(overlap(std::vector<QueuedCollective>{{2, 30}}, 10, {.compute = 0.5}).computed_s, 14);
  // The second bucket is ready later, too.
  EXPECT_THAT(overlap(std::vector<QueuedCollective>{{2, 3}, {4, 1}}, 10, {.compute = 0.5}).ended_s,
              ElementsAre(DoubleEq(5), DoubleEq(6)));
  EXPECT_THAT(overlap(std::vector<QueuedCollective>{{2, 3}, {5, 1}}, 10, {.compute = 0.5}).ended_s,
              ElementsAre(DoubleEq(5), DoubleEq(7)));
}

TEST(OverlapTest, a_collective_is_slower_while_the_rank_computes) {
  EXPECT_DOUBLE_EQ(overlap(std::vector<QueuedCollective>{{2, 2}}, 10, {.network = 0.5}).communicated_s(), 5);
  // Three of its seconds pass while computing, which bring two; the third follows.
  EXPECT_DOUBLE_EQ(overlap(std::vector<QueuedCollective>{{7, 3}}, 10, {.network = 0.5}).communicated_s(), 11);
  EXPECT_DOUBLE_EQ(overlap(std::vector<QueuedCollective>{{10, 3}}, 10, {.network = 0.5}).communicated_s(),
                   13);
}

TEST(OverlapTest, a_collective_begins_late_while_the_rank_computes) {
  // Until 4 computing is not stretched; the two busy seconds bring one.
  const OverlapEnd end = overlap(std::vector<QueuedCollective>{{2, 2, 2}}, 10, {.compute = 1});
  EXPECT_DOUBLE_EQ(end.communicated_s(), 6);
  EXPECT_DOUBLE_EQ(end.computed_s, 11);
  // Computing ends first, and with it the wait.
  EXPECT_DOUBLE_EQ(overlap(std::vector<QueuedCollective>{{9, 3, 5}}, 10, {}).communicated_s(), 13);
  EXPECT_DOUBLE_EQ(overlap(std::vector<QueuedCollective>{{10, 3, 5}}, 10, {}).communicated_s(), 13);
  // The second begins when the first has ended, late again.
  EXPECT_THAT(overlap(std::vector<QueuedCollective>{{2, 2, 1}, {3, 1, 1}}, 10, {.compute = 1}).ended_s,
              ElementsAre(DoubleEq(5), DoubleEq(7)));
}

TEST(JobStepTest, the_update_follows_all_collectives_or_each) {
  JobStep step{.computing_s = 9, .update_s = 3, .other_s = 1, .queue = {{2, 3}, {4, 1}, {9, 2}}};
  EXPECT_DOUBLE_EQ(step_s(step, 0), 11 + 3 + 1);
  step.updates_on_arrival = true;
  EXPECT_DOUBLE_EQ(step_s(step, 0), 9 + 3 + 1);
  step.overlaps = false;
  EXPECT_DOUBLE_EQ(step_s(step, 0), 15 + 1 + 1);
}

TEST(JobStepTest, values_follow_in_the_same_queue) {
  // Gradients end at 11; two updates are done by then, and the third at 12.
  JobStep step{.computing_s = 9,
               .update_s = 3,
               .queue = {{2, 3}, {4, 1}, {9, 2}},
               .gather_s = {2, 2, 2},
               .updates_on_arrival = true};
  EXPECT_DOUBLE_EQ(step_s(step, 0), 17);
  step.updates_on_arrival = false;
  step.gather_s = {6};
  EXPECT_DOUBLE_EQ(step_s(step, 0), 11 + 3 + 6);
}

TEST(JobStepTest, noise_delays_what_computes_and_servers_bound_the_step) {
  JobStep step{.fetch_s = 1, .computing_s = 10, .update_s = 2, .queue = {{5, 1}, {10, 4}}};
  EXPECT_DOUBLE_EQ(step_s(step, 0.1), 1 + 11 + 4 + 2.2);
  step.servers_s = 50;
  EXPECT_DOUBLE_EQ(step_s(step, 0.1), 50);
}

}  // namespace
}  // namespace lockstep::predict
