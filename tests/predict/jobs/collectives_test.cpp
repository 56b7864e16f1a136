#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/predict/jobs/collective_table.h"

namespace lockstep::predict {
namespace {

using enum CollectiveKind;
using testing::DoubleNear;

TEST(CollectivesTest, shapes_are_those_of_the_textbook) {
  const Shape ring = shape_of(kAllReduce, Algorithm::kRing, 8);
  EXPECT_DOUBLE_EQ(ring.rounds, 14);
  EXPECT_DOUBLE_EQ(ring.volume, 1.75);
  const Shape halving = shape_of(kAllReduce, Algorithm::kHalvingDoubling, 8);
  EXPECT_DOUBLE_EQ(halving.rounds, 6);
  EXPECT_DOUBLE_EQ(halving.volume, 1.75);
  const Shape folded = shape_of(kAllReduce, Algorithm::kHalvingDoubling, 3);
  EXPECT_DOUBLE_EQ(folded.rounds, 5);
  EXPECT_DOUBLE_EQ(folded.volume, 2.25);
  const Shape tree = shape_of(kAllReduce, Algorithm::kDoubleTree, 8);
  EXPECT_DOUBLE_EQ(tree.rounds, 6);
  EXPECT_DOUBLE_EQ(tree.volume, 2);
  EXPECT_DOUBLE_EQ(shape_of(kReduceScatter, Algorithm::kRing, 8).rounds, 7);
  EXPECT_DOUBLE_EQ(shape_of(kBroadcast, Algorithm::kBinomial, 8).volume, 3);
  EXPECT_DOUBLE_EQ(shape_of(kAllReduce, Algorithm::kRing, 1).rounds, 0);
}

TEST(CollectivesTest, libraries_take_their_algorithms) {
  EXPECT_EQ(library_algorithm("gloo", kAllReduce, 64, 1e6), Algorithm::kRing);
  EXPECT_EQ(library_algorithm("gloo", kBroadcast, 64, 1e6), Algorithm::kBinomial);
  EXPECT_EQ(library_algorithm("mpi", kAllReduce, 64, 1e3), Algorithm::kBinomial);
  EXPECT_EQ(library_algorithm("mpi", kAllReduce, 64, 1e6), Algorithm::kHalvingDoubling);
  EXPECT_EQ(library_algorithm("mpi", kAllGather, 64, 1e6), Algorithm::kRing);
  EXPECT_EQ(library_algorithm("nccl", kAllReduce, 64, 1e6), Algorithm::kDoubleTree);
  EXPECT_EQ(library_algorithm("nccl", kAllReduce, 8, 1e6), Algorithm::kRing);
}

TEST(CollectivesTest, hosts_pay_for_the_ring_between_them_and_for_what_is_within) {
  const CollectiveTime time = hierarchical_time({.latency_s = 1, .transfer_s = 2}, {0.5, 100}, 4, 200);
  EXPECT_DOUBLE_EQ(time.latency_s, 1 + 6 * 0.5);
  EXPECT_DOUBLE_EQ(time.transfer_s, 2 + 1.5 * 2);
}

TEST(CollectivesTest, the_busiest_server_decides) {
  const Link link{.latency_s = 0.25, .bytes_per_s = 100};
  // Four servers of 100 bytes each, and one that has the largest tensor.
  EXPECT_DOUBLE_EQ(server_time(link, 8, 4, 400, 50).transfer_s, 2 * 100 * 8 / 100.0);
  EXPECT_DOUBLE_EQ(server_time(link, 8, 4, 400, 300).transfer_s, 2 * 300 * 8 / 100.0);
  EXPECT_DOUBLE_EQ(server_time(link, 8, 4, 400, 50).latency_s, 0.5);
  EXPECT_DOUBLE_EQ(server_time(link, 1, 1, 400, 50).total_s(), 0);
}

TEST(CollectivesTest, names_are_read_in_any_spelling) {
  EXPECT_EQ(collective_named("all-reduce"), kAllReduce);
  EXPECT_EQ(collective_named("AllGather"), kAllGather);
  EXPECT_EQ(collective_named("reduce_scatter"), kReduceScatter);
  EXPECT_EQ(collective_named("send_recv"), std::nullopt);
}

/// A table that a ring over `link` would give at these numbers of ranks.
CollectiveTable ring_table(const Link& link, const std::vector<int>& ranks) {
  CollectiveTable table("gloo");
  for (const int n : ranks) {
    for (const double bytes : {1e3, 1e5, 1e7})
      table.add({n, kAllReduce, bytes,
                 time_over(link, shape_of(kAllReduce, Algorithm::kRing, n), bytes).total_s()});
  }
  return table;
}

TEST(CollectiveTableTest, a_ring_is_carried_to_other_numbers_of_ranks) {
  const Link link{.latency_s = 20e-6, .bytes_per_s = 1e9};
  const CollectiveTable table = ring_table(link, {2, 4});
  for (const int ranks : {2, 3, 4, 16, 256}) {
    const CollectiveTime expected = time_over(link, shape_of(kAllReduce, Algorithm::kRing, ranks), 1e7);
    const CollectiveTime found = table.time(kAllReduce, {ranks, ranks}, 1e7);
    EXPECT_NEAR(found.total_s(), expected.total_s(), 0.03 * expected.total_s()) << ranks;
    if (ranks != 3) {
      EXPECT_NEAR(found.latency_s, expected.latency_s, 0.02 * expected.latency_s) << ranks;
    }
  }
  EXPECT_EQ(table.time(kAllReduce, {1, 1}, 1e7).total_s(), 0);
}

TEST(CollectiveTableTest, measured_points_are_met_and_their_steps_kept) {
  CollectiveTable table("gloo");
  // Not monotone, as real tables are.
  for (const auto& [bytes, time_s] : {std::pair{1e3, 1e-4}, {1e4, 5e-4}, {1e5, 2e-4}, {1e6, 2e-3}})
    table.add({4, kAllReduce, bytes, time_s});
  EXPECT_DOUBLE_EQ(table.time(kAllReduce, {4, 4}, 1e4).total_s(), 5e-4);
  EXPECT_DOUBLE_EQ(table.time(kAllReduce, {4, 4}, 1e5).total_s(), 2e-4);
  EXPECT_NEAR(table.time(kAllReduce, {4, 4}, std::sqrt(1e11)).total_s(), std::sqrt(2e-4 * 2e-3), 1e-9);
  EXPECT_FALSE(table.latency_is_assumed());
  EXPECT_EQ(table.most_ranks(), 4);
}

TEST(CollectiveTableTest, other_collectives_are_parts_of_an_all_reduce) {
  const CollectiveTable table = ring_table({20e-6, 1e9}, {2});
  const double all_s = table.time(kAllReduce, {8, 8}, 1e7).total_s();
  EXPECT_DOUBLE_EQ(table.time(kReduceScatter, {8, 8}, 1e7).total_s(), all_s / 2);
  EXPECT_DOUBLE_EQ(table.time(kAllGather, {8, 8}, 1e7).total_s(), all_s / 2);
}

TEST(CollectiveTableTest, large_sizes_need_an_assumption_about_latency) {
  CollectiveTable table("gloo");
  table.add({2, kAllReduce, 1e7, 0.01});
  EXPECT_TRUE(table.latency_is_assumed());
  EXPECT_DOUBLE_EQ(table.time(kAllReduce, {2, 2}, 1e7).latency_s, 2 * kAssumedRound_s);
  EXPECT_DOUBLE_EQ(table.time(kAllReduce, {2, 2}, 1e7).total_s(), 0.01);
  // What differs among large buffers may be anything.
  table.add({2, kAllReduce, 1e6, 0.009});
  EXPECT_TRUE(table.latency_is_assumed());
  EXPECT_DOUBLE_EQ(table.time(kAllReduce, {2, 2}, 1e7).latency_s, 2 * kAssumedRound_s);
  table.add({2, kAllReduce, 1e3, 0.001});
  EXPECT_FALSE(table.latency_is_assumed());
}

TEST(CollectiveTableTest, a_few_bytes_are_latency) {
  CollectiveTable table("gloo");
  table.add({2, kAllReduce, 84, 3.5e-3});
  EXPECT_FALSE(table.latency_is_assumed());
  EXPECT_NEAR(table.time(kAllReduce, {2, 2}, 84).latency_s, 3.5e-3, 1e-5);
  EXPECT_NEAR(table.time(kAllReduce, {2, 2}, 84, {.bandwidth = 1e6}).total_s(), 3.5e-3, 1e-5);
  EXPECT_NEAR(table.time(kAllReduce, {2, 2}, 84, {.latency = 0.5}).total_s(), 1.75e-3, 1e-5);
}

TEST(CollectiveTableTest, the_slower_of_library_and_network_counts) {
  CollectiveTable table = ring_table({20e-6, 1e9}, {2});
  table.set_network({.latency_s = 5e-6, .bytes_per_s = 1e8}, false);
  EXPECT_NEAR(table.time(kAllReduce, {4, 1}, 1e7).transfer_s, 1.5 * 1e7 / 1e8, 1e-9);
  EXPECT_THAT(table.time(kAllReduce, {4, 1}, 1e7).latency_s, DoubleNear(6 * 20e-6, 1e-6));
  // On one host the network is not used.
  EXPECT_NEAR(table.time(kAllReduce, {4, 4}, 1e7).transfer_s, 1.5 * 1e7 / 1e9, 1e-4);
  table.set_network({.latency_s = 5e-6, .bytes_per_s = 1e10}, true);
  EXPECT_NEAR(table.time(kAllReduce, {4, 1}, 1e7).total_s(), 6 * 5e-6 + 1.5 * 1e7 / 1e10, 1e-9);
}

TEST(CollectiveTableTest, a_change_is_of_the_network_where_it_is_used) {
  CollectiveTable table = ring_table({20e-6, 1e9}, {2});
  const LinkChange change{.bandwidth = 2, .latency = 0};
  EXPECT_NEAR(table.time(kAllReduce, {4, 4}, 1e7, change).total_s(), 1.5 * 1e7 / 2e9, 1e-4);
  table.set_network({.latency_s = 50e-6, .bytes_per_s = 1e8}, false);
  EXPECT_NEAR(table.time(kAllReduce, {4, 1}, 1e7, change).transfer_s, 1.5 * 1e7 / 2e8, 1e-9);
  EXPECT_THAT(table.time(kAllReduce, {4, 1}, 1e7, change).latency_s, DoubleNear(6 * 20e-6, 1e-6));
  EXPECT_NEAR(table.time(kAllReduce, {4, 1}, 1e7, {.bandwidth = 100}).transfer_s, 1.5 * 1e7 / 1e9, 1e-4);
}

TEST(CollectiveTableTest, a_time_is_carried_from_the_algorithm_that_was_measured) {
  CollectiveTable table("nccl");
  for (const double bytes : {8.0, 1e6}) table.add({8, kAllReduce, bytes, bytes < 10 ? 14e-6 : 189e-6});
  // From the 14 rounds of a ring to the 8 of a tree, and from 1.75 times the bytes to twice.
  const CollectiveTime tree = table.time(kAllReduce, {16, 16}, 1e6);
  EXPECT_NEAR(tree.latency_s, 8e-6, 1e-8);
  EXPECT_NEAR(tree.transfer_s, 200e-6, 1e-6);
}

TEST(CollectiveTableTest, an_empty_table_has_no_costs) {
  EXPECT_THROW(CollectiveTable("gloo").time(kAllReduce, {2, 2}, 1), ConfigError);
}

TEST(CollectiveTableTest, computing_makes_collectives_slower_than_the_table) {
  const CollectiveTable table = ring_table({0, 1e9}, {4});
  EXPECT_NEAR(network_loss(table, {{4, kAllReduce, 1e7, 1.25 * 1.5 * 1e7 / 1e9}}, {4, 4}), 0.25, 1e-9);
  EXPECT_EQ(network_loss(table, {{8, kAllReduce, 1e7, 1}}, {8, 8}), 0);
}

}  // namespace
}  // namespace lockstep::predict
