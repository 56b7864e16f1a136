#include "lockstep/links/measure.h"

#include <mutex>
#include <set>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/invitation.h"

#include "comm/rank_world.h"

namespace lockstep::links {
namespace {

TEST(FlowOrderTest, every_ordered_pair_has_one_turn_and_ranks_take_turns) {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    const auto order = flow_order(ranks);
    EXPECT_EQ(order.size(), static_cast<size_t>(ranks * (ranks - 1)));
    EXPECT_EQ(std::set(order.begin(), order.end()).size(), order.size());
    for (size_t i = 0; i < order.size(); i += 2)
      EXPECT_EQ(order[i], std::pair(order[i + 1].second, order[i + 1].first));
    // Rank 0, which shows the progress, is never away for longer than a day of the tournament.
    size_t away = 0;
    for (const auto& [from, to] : order) {
      away = from == 0 || to == 0 ? 0 : away + 1;
      EXPECT_LT(away, static_cast<size_t>(2 * ranks));
    }
  }
}

/// The record of rank 0 after a measurement over sockets or messages of threads.
Record measured(int ranks, bool by_sockets, std::vector<std::string>& kept) {
  comm::HashStore store;
  Record result;
  std::mutex mutex;
  comm::run_threads(ranks, comm::test_timeout(), [&](comm::Communicator& group) {
    Record record;
    if (group.rank() == 0) {
      record.hosts.resize(1);
      record.ranks.resize(static_cast<size_t>(ranks));
      for (const auto& [from, to] : flow_order(ranks))
        record.flows.push_back({.from = from, .to = to, .kind = kLoopback});
    }
    const auto wire = by_sockets
                          ? socket_wire(comm::connect_ranks(store, "wire", group.rank(), ranks, "127.0.0.1",
                                                            comm::deadline_after(comm::test_timeout())),
                                        comm::test_timeout())
                          : message_wire(group);
    measure_flows(record, group, *wire, store, {.rounds = 2, .pair_s = 0.02},
                  {.progress =
                       [](double share) {
                         EXPECT_GE(share, 0);
                         EXPECT_LT(share, 1);
                       },
                   .keep =
                       [&](const Record& so_far) {
                         const std::lock_guard lock(mutex);
                         kept.push_back(to_json(so_far));
                       }});
    if (group.rank() == 0) result = record;
  });
  return result;
}

TEST(MeasureTest, every_flow_has_its_rounds_over_sockets_and_over_messages) {
  for (const int ranks : {2, 3, 4}) {
    for (const bool by_sockets : {true, false}) {
      std::vector<std::string> kept;
      const Record record = measured(ranks, by_sockets, kept);
      EXPECT_EQ(record.flows.size(), static_cast<size_t>(ranks * (ranks - 1)));
      for (const Flow& flow : record.flows) {
        EXPECT_EQ(flow.rounds_gbit_per_s.size(), 2U);
        EXPECT_GT(flow.low(), 0);
        EXPECT_LE(flow.low(), flow.gbit_per_s);
        EXPECT_GT(flow.latency_s, 0);
        EXPECT_LT(flow.latency_s, 1);
        EXPECT_EQ(flow.at_once_gbit_per_s.has_value(), flow.to == (flow.from + 1) % ranks);
        EXPECT_NE(flow.at_once_gbit_per_s, 0);
      }
      // After each round, and with what all at once have; each can be read.
      EXPECT_EQ(kept.size(), 3U);
      EXPECT_EQ(to_json(from_json(kept.front(), "kept")), kept.front());
    }
  }
}

/// Two connected sockets.
std::pair<UniqueFd, UniqueFd> socket_pair() {
  int ends[2] = {};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

TEST(WireTest, a_network_that_swallows_messages_and_a_rank_that_is_gone_are_said) {
  auto [own, other] = socket_pair();
  std::vector<UniqueFd> ends(2);
  ends[1] = std::move(own);
  const auto wire = socket_wire(std::move(ends), comm::Duration(0.05));
  char byte = 0;
  try {
    wire->receive(1, {&byte, 1});
    FAIL() << "received from nobody";
  } catch (const TimeoutError& error) {
    EXPECT_NE(std::string(error.what()).find("nothing moved from rank 1"), std::string::npos) << error.what();
    EXPECT_NE(error.advice().find("MTU"), std::string::npos);
  }
  other = UniqueFd();
  EXPECT_THROW(wire->receive(1, {&byte, 1}), CommError);
}

}  // namespace
}  // namespace lockstep::links
