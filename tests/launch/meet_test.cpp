#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/meeting.h"
#include "lockstep/launch/tcp_socket.h"

namespace lockstep::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Ranks that are threads, in a store that nobody takes down.
class MeetTest : public ::testing::Test {
 protected:
  static RankEnvironment rank(int rank, int world) {
    RankEnvironment environment;
    environment.rank = environment.local_rank = rank;
    environment.world = environment.local_world = world;
    return environment;
  }

  std::future<std::shared_ptr<comm::Store>> come(int number, int world, Patience patience = {.limit = 20s}) {
    return std::async(std::launch::async, [this, number, world, patience] {
      return meet(store_, rank(number, world), patience);
    });
  }

  /// What the meeting fails with on one rank.
  static MeetingFailed failure_of_meeting(std::future<std::shared_ptr<comm::Store>> rank) {
    try {
      rank.get();
    } catch (const MeetingFailed& failure) {
      return failure;
    }
    ADD_FAILURE() << "the ranks have met";
    return {"", "", 0};
  }

  std::shared_ptr<comm::Store> store_ = std::make_shared<comm::HashStore>();
};

TEST_F(MeetTest, all_ranks_get_a_part_of_the_store_that_is_new_every_time) {
  for (const char* command : {"first", "second"}) {
    std::vector<std::future<std::shared_ptr<comm::Store>>> ranks;
    for (int rank = 3; rank >= 0; --rank) ranks.push_back(come(rank, 4));
    std::vector<std::shared_ptr<comm::Store>> parts;
    for (auto& rank : ranks) parts.push_back(rank.get());
    EXPECT_THROW(parts[0]->get("watch", 0s), TimeoutError);
    parts[3]->set("watch", command);
    EXPECT_EQ(parts[0]->get("watch", 1s), command);
    EXPECT_EQ(parts[1]->add("done", 1), 1);
  }
}

TEST_F(MeetTest, a_rank_that_came_and_died_is_missing) {
  store_->add("arrivals", 1);
  store_->set("arrival/1", R"({"is": "arrived", "rank": 1, "token": "of a dead rank"})");
  EXPECT_THAT(failure_of_meeting(come(0, 2, {.limit = 300ms})).what(), HasSubstr("rank 1 did not"));
  // The one that is started in its place is not kept from coming.
  auto first = come(0, 2);
  EXPECT_NE(come(1, 2).get(), nullptr);
  EXPECT_NE(first.get(), nullptr);
}

TEST_F(MeetTest, what_no_rank_writes_is_passed_over) {
  for (const char* entry : {"{", "[]", R"({"is": "arrived"})", R"({"is": 1, "rank": 1, "token": "t"})",
                            R"({"is": "here", "rank": 7, "token": "t"})",
                            R"({"is": "failed", "rank": 1, "token": "t", "lost": 3})"}) {
    store_->set("arrival/" + std::to_string(store_->add("arrivals", 1)), entry);
  }
  auto first = come(0, 2);
  EXPECT_NE(come(1, 2).get(), nullptr);
  EXPECT_NE(first.get(), nullptr);
}

TEST_F(MeetTest, a_rank_that_cannot_come_ends_the_meeting_for_all_with_its_words) {
  auto first = come(0, 3, {.limit = 60s});
  auto second = come(1, 3, {.limit = 60s});
  LostRank why = lockstep::launch::failure_of(2, ConfigError("there is no file 'a'", "Name one."));
  why.host = "h";
  why.pid = 7;
  const std::string told = "rank 2 (host h, pid 7) failed while starting: there is no file 'a'";
  EXPECT_EQ(decline(*store_, rank(2, 3), why, 20s), told);
  for (auto* rank : {&first, &second}) {
    const MeetingFailed failure = failure_of_meeting(std::move(*rank));
    EXPECT_EQ(failure.what(), told);
    EXPECT_EQ(failure.advice(), "Name one.");
    EXPECT_EQ(failure.exit_code(), kExitUsage);
  }
}

TEST_F(MeetTest, rank_0_that_cannot_come_tells_the_others_its_own_words) {
  auto other = come(1, 2, {.limit = 60s});
  EXPECT_EQ(decline(*store_, rank(0, 2), failure_of(0, BackendMissing("no MPI")), 20s), "no MPI");
  const MeetingFailed failure = failure_of_meeting(std::move(other));
  EXPECT_EQ(failure.what(), std::string("no MPI"));
  EXPECT_EQ(failure.exit_code(), kExitBackendMissing);
}

TEST_F(MeetTest, words_of_another_rank_are_cleaned_and_its_exit_code_is_that_of_a_failure) {
  auto other = come(1, 2, {.limit = 60s});
  LostRank odd = failure_of(0, Error("a\x1b[2Jb", "c\rd"));
  odd.exit_code = 0;
  decline(*store_, rank(0, 2), odd, 20s);
  const MeetingFailed failure = failure_of_meeting(std::move(other));
  EXPECT_EQ(failure.what(), std::string("a?[2Jb"));
  EXPECT_EQ(failure.advice(), "c?d");
  EXPECT_EQ(failure.exit_code(), kExitFailed);
}

TEST_F(MeetTest, rank_0_says_who_is_missing_while_it_waits) {
  std::promise<std::string> said;
  bool is_said = false;
  const Patience patience{.limit = 20s,
                          .on_waiting =
                              [&](const std::string& line) {
                                if (!std::exchange(is_said, true)) said.set_value(line);
                              },
                          .say_every = 100ms};
  auto first = come(0, 3, patience);
  EXPECT_THAT(said.get_future().get(), AllOf(HasSubstr("waiting for ranks 1, 2 of 3 since "),
                                             HasSubstr("for 20 s at most (--join-timeout)")));
  auto second = come(1, 3);
  EXPECT_NE(come(2, 3).get(), nullptr);
  EXPECT_NE(first.get(), nullptr);
  EXPECT_NE(second.get(), nullptr);
}

TEST(LoopbackTest, addresses_and_names_of_this_host_alone_are_known) {
  for (const char* host :
       {"localhost", "127.0.0.1", "127.1.2.3", "::1", "0:0:0:0:0:0:0:1", "ip6-localhost"}) {
    EXPECT_TRUE(is_loopback(host)) << host;
  }
  for (const char* host : {"", "node1", "10.0.0.1", "128.0.0.1", "127.example.org", "::2", "0.0.0.0"}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

}  // namespace
}  // namespace lockstep::launch
