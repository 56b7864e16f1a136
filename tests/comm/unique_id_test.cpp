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

/// The id that each rank got, or the exception that it threw: "config: ...", "comm: ...".
std::vector<std::string> share(const std::vector<std::string>& devices,
                               const std::function<std::string()>& make_id, size_t present) {
  HashStore store;
  std::vector<std::string> got(present);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < present; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const Duration timeout = present < devices.size() ? Duration(0.05) : test_timeout();
        got[rank] =
            share_unique_id(store, "p", int(rank), int(devices.size()), devices[rank], make_id, timeout);
      } catch (const ConfigError& error) {
        got[rank] = std::string("config: ") + error.what();
      } catch (const TimeoutError& error) {
        got[rank] = std::string("time-out: ") + error.what();
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
  EXPECT_EQ(share(
                {"x", "y", "z"}, [&] { return id; }, 3),
            (std::vector<std::string>{id, id, id}));
}

TEST(UniqueIdTest, ranks_that_share_a_gpu_are_named_to_all) {
  const std::string refusal = "config: ranks 1 and 3 have the same GPU, y, but NCCL needs one for every rank";
  EXPECT_EQ(share(
                {"x", "y", "z", "y"}, [] { return ""; }, 4),
            std::vector<std::string>(4, refusal));
}

TEST(UniqueIdTest, a_failure_of_rank_0_reaches_the_others) {
  const auto make = []() -> std::string { throw CommError("no network"); };
  EXPECT_EQ(
      share({"x", "y"}, make, 2),
      (std::vector<std::string>{"comm: no network", "comm: rank 0 could not make an NCCL id: no network"}));
}

TEST(UniqueIdTest, a_rank_that_never_comes_is_a_time_out_for_all) {
  const std::vector<std::string> got = share(
      {"x", "y", "z"}, [] { return "id"; }, 2);
  EXPECT_EQ(got[0].rfind("time-out: ", 0), 0U) << got[0];
  EXPECT_NE(got[0].find("p/device/2"), std::string::npos) << got[0];
  // Either its own wait ended first, or it heard of rank 0's.
  EXPECT_TRUE(got[1].rfind("time-out: ", 0) == 0 || got[1].rfind("comm: rank 0", 0) == 0) << got[1];
}

}  // namespace
}  // namespace lockstep::comm
