#include "lockstep/comm/unique_id.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/store.h"

#include "comm/rank_world.h"

namespace lockstep::comm {
namespace {

/// The id that each rank got, or the error that it threw: "comm: ...".
std::vector<std::string> share(size_t ranks, const std::function<std::string()>& make_id) {
  HashStore store;
  std::vector<std::string> got(ranks);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        got[rank] = share_unique_id(store, "key", int(rank), make_id, test_timeout());
      } catch (const CommError& error) {
        got[rank] = std::string("comm: ") + error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return got;
}

TEST(UniqueIdTest, every_rank_gets_the_bytes_that_rank_0_made) {
  const std::string id("\0a\nb\xff", 5);
  EXPECT_EQ(share(3, [&] { return id; }), std::vector<std::string>(3, id));
}

TEST(UniqueIdTest, a_failure_of_rank_0_reaches_the_others) {
  const auto make = []() -> std::string { throw CommError("no network"); };
  EXPECT_EQ(share(2, make), (std::vector<std::string>{"comm: no network",
                                                      "comm: rank 0 could not make an NCCL id: no network"}));
}

TEST(UniqueIdTest, a_rank_0_that_never_comes_is_a_time_out) {
  HashStore store;
  const auto make = [] { return std::string("never asked for"); };
  EXPECT_THROW(share_unique_id(store, "key", 1, make, Duration(0.05)), TimeoutError);
}

}  // namespace
}  // namespace lockstep::comm
