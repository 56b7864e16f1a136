#include "lockstep/topology/use.h"

#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace lockstep::topology {
namespace {

volatile double sink = 0;

void burn_s(double seconds) {
  const std::clock_t begin = std::clock();
  while (static_cast<double>(std::clock() - begin) < seconds * CLOCKS_PER_SEC) {
    for (int i = 0; i < 100000; ++i) sink = sink + 1;
  }
}

TEST(UseTest, processor_time_is_that_of_this_process_and_part_of_the_hosts) {
  const UseWatch watch;
  burn_s(0.1);
  const RankUse use = watch.finish();
  EXPECT_GE(use.cpu_s, 0.1);
  EXPECT_GE(use.wall_s, 0.1 / use.host_hardware_threads);
  // The host counts in ticks of 10 ms.
  EXPECT_GE(use.host_busy_s, 0.05);
  EXPECT_EQ(use.process, ::getpid());
}

TEST(UseTest, a_sleeping_process_uses_next_to_nothing) {
  const UseWatch watch;
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const RankUse use = watch.finish();
  EXPECT_LT(use.cpu_s, 0.05);
  EXPECT_GE(use.wall_s, 0.2);
}

TEST(UseTest, the_peak_of_memory_is_seen_and_can_start_over) {
  constexpr size_t kBytes = size_t{64} << 20;
  const UseWatch before;
  // Not from the heap, which may keep what is freed.
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, kBytes);
  ::munmap(memory, kBytes);
  const int64_t with = before.finish().peak_memory_bytes;
  const UseWatch after;
  const int64_t without = after.finish().peak_memory_bytes;
  EXPECT_GE(with, static_cast<int64_t>(kBytes));
  EXPECT_LT(without, with - static_cast<int64_t>(kBytes) / 2);
}

TEST(UseTest, pages_that_are_touched_for_the_first_time_are_counted) {
  constexpr int kPages = 500;
  const size_t page_bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t bytes = kPages * page_bytes;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ::madvise(memory, bytes, MADV_NOHUGEPAGE);
  const UseWatch watch;
  std::memset(memory, 1, bytes);
  const int64_t first = watch.finish().page_faults;
  const UseWatch again;
  std::memset(memory, 2, bytes);
  const int64_t second = again.finish().page_faults;
  ::munmap(memory, bytes);
  EXPECT_GE(first, kPages);
  EXPECT_LT(second, kPages / 2);
}

}  // namespace
}  // namespace lockstep::topology
