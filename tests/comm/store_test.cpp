#include "lockstep/comm/store.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

constexpr std::chrono::duration<double> kAmple(20);

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lockstep-store-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The contract of every store.
void check_values(Store& store) {
  store.set("plain", "value");
  EXPECT_EQ(store.get("plain", kAmple), "value");
  store.set("plain", "another");
  EXPECT_EQ(store.get("plain", kAmple), "another");
  const std::string binary("a\0b\n\xff", 5);
  store.set("odd/../key %\n", binary);
  EXPECT_EQ(store.get("odd/../key %\n", kAmple), binary);
  store.set("empty", "");
  EXPECT_EQ(store.get("empty", kAmple), "");
  store.set("a_b", "1");
  store.set("a/b", "2");
  EXPECT_EQ(store.get("a_b", kAmple), "1");
}

void check_waiting(Store& store) {
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    store.set("late", "here");
  });
  EXPECT_EQ(store.get("late", kAmple), "here");
  later.join();
  const double start = now_s();
  try {
    store.get("never", std::chrono::duration<double>(0.05));
    FAIL() << "no time-out";
  } catch (const TimeoutError& error) {
    EXPECT_NE(std::string(error.what()).find("never"), std::string::npos) << error.what();
  }
  EXPECT_GE(now_s() - start, 0.05);
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

TEST(HashStoreTest, keeps_values) {
  HashStore store;
  check_values(store);
}

TEST(HashStoreTest, get_waits_for_the_key_and_names_it_when_it_never_comes) {
  HashStore store;
  check_waiting(store);
}

TEST(HashStoreTest, add_is_atomic) {
  HashStore store;
  check_counting(store);
}

TEST(FolderStoreTest, keeps_values_for_everybody) {
  const TemporaryFolder folder;
  FolderStore store(folder.path());
  check_values(store);
  FolderStore other(folder.path());
  EXPECT_EQ(other.get("plain", kAmple), "another");
}

TEST(FolderStoreTest, get_waits_for_the_key_and_names_it_when_it_never_comes) {
  const TemporaryFolder folder;
  FolderStore store(folder.path());
  check_waiting(store);
}

TEST(FolderStoreTest, add_is_atomic) {
  const TemporaryFolder folder;
  FolderStore store(folder.path());
  check_counting(store);
}

TEST(FolderStoreTest, makes_its_folder_and_refuses_what_is_none) {
  const TemporaryFolder folder;
  FolderStore made(folder.path() / "a" / "b");
  made.set("key", "value");
  EXPECT_TRUE(std::filesystem::is_directory(folder.path() / "a" / "b"));
  std::ofstream(folder.path() / "file") << "text";
  EXPECT_THROW(FolderStore(folder.path() / "file"), ConfigError);
  EXPECT_THROW(FolderStore(folder.path() / "file" / "below"), ConfigError);
}

TEST(FolderStoreTest, a_folder_that_went_away_is_an_error_with_a_reason) {
  const TemporaryFolder folder;
  FolderStore store(folder.path() / "gone");
  std::filesystem::remove_all(folder.path() / "gone");
  try {
    store.set("key", "value");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("No such file"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lockstep::comm
