#include "lockstep/launch/threads.h"

#include <atomic>
#include <fstream>
#include <mutex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

TEST(ThreadsTest, every_rank_runs_once) {
  std::mutex mutex;
  std::multiset<int> seen;
  run_threads(7, [&](int rank) {
    const std::lock_guard lock(mutex);
    seen.insert(rank);
  });
  EXPECT_THAT(seen, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST(ThreadsTest, a_thread_that_cannot_be_started_ends_those_that_were) {
  std::atomic<bool> closed{false};
  const auto on_failure = [&](int, std::exception_ptr) {
    closed = true;
    closed.notify_all();
  };
  rlimit before{};
  ::getrlimit(RLIMIT_AS, &before);
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  // Room for the stacks of some threads.
  const rlimit tight{pages * static_cast<size_t>(::getpagesize()) + (size_t{64} << 20), before.rlim_max};
  ::setrlimit(RLIMIT_AS, &tight);
  std::string advice;
  try {
    run_threads(
        1000, [&](int) { closed.wait(false); }, on_failure);
  } catch (const std::exception& error) {
    advice = trouble_of(error).advice;
  }
  ::setrlimit(RLIMIT_AS, &before);
  EXPECT_THAT(advice, ::testing::HasSubstr("ulimit -u"));
}

TEST(ThreadsTest, on_failure_frees_the_others) {
  std::atomic<bool> closed{false};
  int told = -1;
  const auto function = [&](int rank) {
    if (rank == 1) throw Error("rank 1 fails");
    closed.wait(false);
  };
  const auto on_failure = [&](int rank, std::exception_ptr) {
    told = rank;
    closed = true;
    closed.notify_all();
  };
  EXPECT_THROW(run_threads(4, function, on_failure), Error);
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace lockstep::launch
