#include <gtest/gtest.h>

#include "lockstep/collectives/measure.h"
#include "lockstep/comm/invitation.h"
#include "lockstep/comm/store.h"

#include "comm/rank_world.h"

namespace lockstep::collectives {
namespace {

TEST(LinkTest, memory_and_sockets_have_a_rate_that_all_ranks_agree_on) {
  for (const int ranks : {1, 2, 3}) {
    comm::HashStore store;
    std::vector<Link> memory(static_cast<size_t>(ranks)), sockets(static_cast<size_t>(ranks));
    comm::run_threads(ranks, comm::test_timeout(), [&](comm::Communicator& comm) {
      const auto rank = static_cast<size_t>(comm.rank());
      memory[rank] = measure_memory(comm);
      if (ranks == 1) return;
      sockets[rank] =
          measure_sockets(comm, comm::connect_ranks(store, "link", comm.rank(), ranks, "127.0.0.1",
                                                    comm::deadline_after(comm::test_timeout())));
    });
    for (const Link& link : memory) EXPECT_EQ(link.gb_per_s, memory[0].gb_per_s);
    EXPECT_GT(memory[0].gb_per_s, 0);
    EXPECT_FALSE(memory[0].latency_s);
    if (ranks == 1) continue;
    for (const Link& link : sockets) EXPECT_EQ(link.gb_per_s, sockets[0].gb_per_s);
    EXPECT_GT(sockets[0].gb_per_s, 0);
    EXPECT_GT(*sockets[0].latency_s, 0);
    EXPECT_LT(*sockets[0].latency_s, 1);
    EXPECT_EQ(sockets[0].kind, "sockets");
  }
}

}  // namespace
}  // namespace lockstep::collectives
