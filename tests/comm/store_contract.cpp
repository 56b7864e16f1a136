#include "comm/store_contract.h"

#include <future>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr std::chrono::duration<double> kAmple(20);

double processor_time_s() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

void check_values(Store& one, Store& other) {
  one.set("plain", "value");
  EXPECT_EQ(other.get("plain", kAmple), "value");
  other.set("plain", "another");
  EXPECT_EQ(one.get("plain", kAmple), "another");
  std::string every_byte(256, '\0');
  for (size_t i = 0; i < every_byte.size(); ++i) every_byte[i] = static_cast<char>(i);
  one.set("odd/../key %\n", every_byte);
  EXPECT_EQ(other.get("odd/../key %\n", kAmple), every_byte);
  one.set("empty", "");
  EXPECT_EQ(other.get("empty", kAmple), "");
  const std::string large(300000, 'x');
  one.set("large", large);
  EXPECT_EQ(other.get("large", kAmple), large);
  one.set("a_b", "1");
  one.set("a/b", "2");
  EXPECT_EQ(other.get("a_b", kAmple), "1");
  EXPECT_EQ(one.add("count", 2), 2);
  EXPECT_EQ(other.add("count", -1), 1);
  EXPECT_EQ(other.get("count", kAmple), "1");
}

void check_waiting(Store& store) {
  auto waiting = std::async(std::launch::async, [&] { return store.get("late", kAmple); });
  const double before_s = processor_time_s();
  EXPECT_EQ(waiting.wait_for(500ms), std::future_status::timeout);
  EXPECT_LT(processor_time_s() - before_s, 0.1);  // a loop would have taken all of it
  store.set("late", "here");
  EXPECT_EQ(waiting.get(), "here");
  const auto before = std::chrono::steady_clock::now();
  try {
    store.get("missing", 50ms);
    FAIL() << "no time-out";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'missing'"));
  }
  EXPECT_GE(std::chrono::steady_clock::now() - before, 50ms);
  store.set("missing", "here");
  EXPECT_EQ(store.get("missing", kAmple), "here");
}

void check_counting(Store& store) {
  constexpr int kThreads = 4;
  constexpr int kTimes = 25;
  std::vector<std::vector<int64_t>> seen(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < kTimes; ++k) seen[size_t(i)].push_back(store.add("counter", 2));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<int64_t> all;
  for (const auto& values : seen) all.insert(values.begin(), values.end());
  EXPECT_EQ(all.size(), size_t(kThreads * kTimes)) << "two threads got the same value";
  EXPECT_EQ(*all.rbegin(), 2 * kThreads * kTimes);
  EXPECT_EQ(store.get("counter", kAmple), "200");
  EXPECT_EQ(store.add("counter", -200), 0);
}

void check_lost_server(Store& client, const std::function<void()>& end_server) {
  auto waiting = std::async(std::launch::async, [&] { return client.get("never", 60s); });
  EXPECT_EQ(waiting.wait_for(100ms), std::future_status::timeout);
  end_server();
  EXPECT_THROW(waiting.get(), PeerLostError);
}

}  // namespace lockstep::comm
