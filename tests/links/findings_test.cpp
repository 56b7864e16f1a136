#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/links/report.h"

#include "links/sample_links.h"

namespace lockstep::links {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::vector<std::string> found(Record record) {
  summarize(record);
  return record.warnings;
}

/// Slows down what a rank sends, receives, or both.
void slow_rank(Record& record, int rank, double sending, double receiving) {
  for (int other = 0; other < std::ssize(record.ranks); ++other) {
    slow_down(record, rank, other, sending);
    slow_down(record, other, rank, receiving);
  }
}

TEST(FindingsTest, nothing_is_wrong_with_a_healthy_network) {
  for (const int hosts : {1, 2, 3, 8}) {
    for (const int each : {1, 2, 4}) {
      EXPECT_THAT(found(sample_links(hosts, each)), IsEmpty()) << hosts << " x " << each;
    }
  }
}

TEST(FindingsTest, a_noisy_round_or_three_are_no_fault) {
  Record record = sample_links(3, 1);
  for (Flow& flow : record.flows) {
    if (flow.from == 1 || flow.to == 1) {
      for (const size_t round : {0, 2, 3})
        flow.rounds_gbit_per_s[round] /= 20, flow.rounds_latency_s[round] *= 50;
    }
  }
  EXPECT_THAT(found(record), IsEmpty());
}

TEST(FindingsTest, a_thin_rank_is_named_with_its_direction) {
  // With three hosts, most flows belong to the thin one.
  for (const int hosts : {3, 8}) {
    Record both = sample_links(hosts, 1), sending = both, receiving = both;
    slow_rank(both, 2, 0.1, 0.1);
    EXPECT_THAT(found(both), ElementsAre("rank 2 (node3) reaches 0.94 of the others' 9.4 Gbit/s"));
    slow_rank(sending, 2, 0.1, 1);
    EXPECT_THAT(found(sending), ElementsAre("rank 2 (node3) sends 0.94 of the others' 9.4 Gbit/s"));
    slow_rank(receiving, 2, 1, 0.1);
    EXPECT_THAT(found(receiving), ElementsAre("rank 2 (node3) receives 0.94 of the others' 9.4 Gbit/s"));
  }
}

TEST(FindingsTest, a_thin_host_is_named_once_for_all_of_its_ranks) {
  Record record = sample_links(3, 4);
  for (int rank = 4; rank < 8; ++rank) {
    for (int other = 0; other < 12; ++other) {
      if (other / 4 == 1) continue;
      slow_down(record, rank, other, 0.1);
      slow_down(record, other, rank, 0.1);
    }
  }
  EXPECT_THAT(found(record), ElementsAre("ranks 4 to 7 (node2) reach 0.94 of the others' 9.4 Gbit/s"));
}

TEST(FindingsTest, one_of_several_ranks_of_a_host_and_two_thin_hosts_of_four) {
  Record one = sample_links(3, 2);
  slow_rank(one, 3, 0.1, 0.1);
  EXPECT_THAT(found(one), ElementsAre("rank 3 (node2) reaches 0.94 of the others' 9.4 Gbit/s"));
  Record two = sample_links(4, 1);
  slow_rank(two, 2, 0.1, 0.1);
  slow_rank(two, 3, 0.1, 0.1);
  EXPECT_THAT(found(two),
              ElementsAre(HasSubstr("rank 2 (node3) reaches"), HasSubstr("rank 3 (node4) reaches")));
}

TEST(FindingsTest, a_thin_pair_is_named_with_its_direction_and_many_are_counted) {
  Record record = sample_links(4, 1);
  slow_down(record, 0, 1, 0.2);
  EXPECT_THAT(found(record),
              ElementsAre("rank 0 (node1) to rank 1 (node2) reaches 1.9 of the others' 9.4 Gbit/s"));
  slow_down(record, 1, 0, 0.2);
  EXPECT_THAT(found(record), ElementsAre("rank 0 (node1) and rank 1 (node2), both ways, reach 1.9 of the "
                                         "others' 9.4 Gbit/s"));
  Record many = sample_links(16, 1);
  for (int rank = 0; rank < 16; rank += 2) slow_down(many, rank, rank + 1, 0.2);
  EXPECT_THAT(found(many), SizeIs(6));
  EXPECT_EQ(found(many).back(), "3 more pairs are as far below the others");
}

TEST(FindingsTest, a_distant_rank_is_named_by_its_latency) {
  Record record = sample_links(4, 1);
  for (Flow& flow : record.flows) {
    if (flow.from != 3 && flow.to != 3) continue;
    for (double& latency_s : flow.rounds_latency_s) latency_s += 2e-3;
  }
  EXPECT_THAT(found(record), ElementsAre("rank 3 (node4): a message takes 2.0 ms, the others' 25.0 us"));
}

TEST(FindingsTest, two_hosts_have_no_others_to_be_compared_with) {
  Record record = sample_links(2, 1);
  slow_down(record, 0, 1, 0.1);
  EXPECT_THAT(found(record), IsEmpty());
}

TEST(FindingsTest, a_faster_interface_that_leads_there_and_is_idle_is_named) {
  Record record = sample_links(3, 1);
  for (Host& host : record.hosts) host.interfaces[2].gbit_per_s = 100;
  EXPECT_THAT(found(record),
              ElementsAre("eth1 (100 Gbit/s) on all hosts is idle, while the ranks talk over eth0 "
                          "(10 Gbit/s): --interface eth1 takes it (NCCL_SOCKET_IFNAME, "
                          "GLOO_SOCKET_IFNAME)"));
  // An interface that talks already is not idle, whatever the other end could use.
  Record fast = record;
  fast.hosts[0].interfaces[1].gbit_per_s = 100;
  for (const std::string& text : found(fast))
    EXPECT_THAT(text, Not(HasSubstr("eth0 (100 Gbit/s) on"))) << text;
  // A host without it, or one on another network, is not led to.
  record.hosts[1].interfaces.erase(record.hosts[1].interfaces.begin() + 2);
  record.hosts[2].interfaces[2].addresses = {"10.9.9.3/24"};
  EXPECT_THAT(found(record), IsEmpty());
}

TEST(FindingsTest, neighbors_that_lose_at_once_share_something) {
  Record record = sample_links(3, 1);
  EXPECT_THAT(shared_links(record), IsEmpty());
  for (Flow& flow : record.flows) {
    if (flow.at_once_gbit_per_s && flow.from != 0) flow.at_once_gbit_per_s = 4.7 - flow.from;
  }
  EXPECT_THAT(shared_links(record),
              ElementsAre(HasSubstr("rank 2 to 0 gets 2.7 of its 9.4 Gbit/s, and 1 more lose as well")));
}

}  // namespace
}  // namespace lockstep::links
