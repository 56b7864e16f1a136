#include <algorithm>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/reception.h"
#include "lockstep/launch/watch_coordinator.h"
#include "lockstep/launch/watcher.h"

namespace lockstep::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class WatchTest : public ::testing::Test {
 protected:
  void coordinate(int world, std::chrono::duration<double> timeout = 30s) {
    WatchCoordinator::Options options;
    options.world = world;
    options.job_id = "job";
    options.timeout = timeout;
    coordinator_ = std::make_unique<WatchCoordinator>(std::move(options));
  }

  Watcher::Options options_of(int rank) {
    Watcher::Options options;
    options.rank = rank;
    options.job_id = "job";
    options.host = "127.0.0.1";
    options.port = coordinator_->port();
    options.timeout = 10s;
    options.progress = &progress_;
    return options;
  }

  std::unique_ptr<Watcher> join(int rank, const std::string& job = "job") {
    Watcher::Options options = options_of(rank);
    options.job_id = job;
    return std::make_unique<Watcher>(std::move(options));
  }

  static LostRank failure(LostRank::Kind kind, const std::string& text) {
    LostRank lost;
    lost.kind = kind;
    lost.reason = "failed";
    lost.detail = text;
    return lost;
  }

  Progress progress_;
  std::unique_ptr<WatchCoordinator> coordinator_;
};

TEST_F(WatchTest, all_goodbyes_are_an_orderly_end) {
  coordinate(2);
  const auto first = join(0);
  const auto second = join(1);
  first->goodbye();
  EXPECT_FALSE(coordinator_->wait_finished(0s));
  second->goodbye();
  EXPECT_TRUE(coordinator_->wait_finished(5s));
  EXPECT_FALSE(coordinator_->cause());
}

TEST_F(WatchTest, a_connection_that_ends_is_a_lost_rank_with_its_last_step) {
  coordinate(2);
  progress_.begin("lenet5 ddp 2 ranks");
  progress_.completed(12);
  auto first = join(0);
  const auto second = join(1);
  first.reset();
  const auto lost = second->wait_lost(5s);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 0);
  EXPECT_EQ(lost->step, 12);
  EXPECT_THAT(describe(*lost), HasSubstr("ended without a goodbye after step 12 of lenet5 ddp 2 ranks"));
}

TEST_F(WatchTest, an_end_of_the_coordinator_is_orderly_only_when_said) {
  coordinate(2);
  const auto first = join(0);
  coordinator_.reset();
  EXPECT_FALSE(first->wait_lost(5s));
}

TEST_F(WatchTest, a_broken_connection_is_put_down_to_the_rank_that_broke_it) {
  coordinate(3);
  const auto first = join(0);
  auto second = join(1);
  const auto third = join(2);
  // The complaint comes first, the reason for it later.
  auto verdict = std::async(std::launch::async, [&] {
    return first->report(failure(LostRank::Kind::kDisturbed, "connection reset by peer"), 5s);
  });
  EXPECT_EQ(verdict.wait_for(100ms), std::future_status::timeout);
  second.reset();
  ASSERT_TRUE(verdict.get());
  EXPECT_EQ(coordinator_->cause()->rank, 1);
  EXPECT_EQ(third->wait_lost(5s)->rank, 1);
  EXPECT_EQ(coordinator_->lost().front().rank, 1);
}

TEST_F(WatchTest, an_error_of_its_own_is_told_at_once_with_any_text) {
  coordinate(2);
  const auto first = join(0);
  const auto second = join(1);
  const auto verdict =
      second->report(failure(LostRank::Kind::kFailed, "not UTF-8: \xff\n and a new line"), 5s);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 1);
  EXPECT_THAT(first->wait_lost(5s)->detail, HasSubstr("\n and a new line"));
}

TEST_F(WatchTest, a_rank_that_never_appears_is_lost) {
  WatchCoordinator::Options options;
  options.world = 2;
  options.job_id = "job";
  options.timeout = 300ms;
  options.join_timeout = 600ms;
  coordinator_ = std::make_unique<WatchCoordinator>(std::move(options));
  const auto first = join(0);
  const auto lost = first->wait_lost(10s);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 1);
  EXPECT_THAT(lost->reason, HasSubstr("did not join"));
}

TEST_F(WatchTest, strangers_and_doubles_are_not_let_in) {
  coordinate(2);
  const auto first = join(0);
  EXPECT_THROW(join(0), CommError);
  EXPECT_THROW(join(2), CommError);
  EXPECT_THROW(join(1, "another job"), CommError);
  // Something that speaks another protocol does no harm.
  Channel stranger(connect_tcp("127.0.0.1", coordinator_->port(), 5s));
  stranger.send("GET / HTTP/1.1");
  EXPECT_NO_THROW(join(1));
}

TEST_F(WatchTest, a_signal_at_one_rank_reaches_all) {
  coordinate(2);
  std::promise<int> told;
  Watcher::Options options = options_of(0);
  options.on_leave = [&](int signal) { told.set_value(signal); };
  const Watcher first(std::move(options));
  const auto second = join(1);
  second->tell_to_leave(15);
  auto signal = told.get_future();
  ASSERT_EQ(signal.wait_for(5s), std::future_status::ready);
  EXPECT_EQ(signal.get(), 15);
  EXPECT_EQ(coordinator_->cause()->exit_code, 143);
}

// Rank 0's process, where the coordinator may live, ends as soon as it hears. So many ranks that the time to
// tell them all is seen.
TEST_F(WatchTest, rank_0_hears_of_a_loss_when_the_others_have_been_told) {
  constexpr int kWorld = 150;
  coordinate(kWorld);
  std::vector<Channel> others;
  const auto has_been_told = [](Channel& other) {
    other.receive();
    for (auto message = other.next(); message; message = other.next()) {
      if (message->at("is") == "lost") return true;
    }
    return false;
  };
  std::promise<std::ptrdiff_t> told_before;
  Watcher::Options options = options_of(0);
  options.on_lost = [&](const LostRank& /*lost*/) {
    told_before.set_value(std::count_if(others.rbegin(), others.rend(), has_been_told));
  };
  const Watcher first(std::move(options));
  for (int rank = 1; rank < kWorld; ++rank) {
    Introduction self{.service = kWatchService, .job_id = "job", .token = "", .rank = rank};
    self.more = {{"host", "here"}, {"pid", 1}};
    others.push_back(enter("127.0.0.1", coordinator_->port(), self, 5s).channel);
  }
  coordinator_->declare_lost(2, "killed by signal 9", "", 1);
  auto told = told_before.get_future();
  ASSERT_EQ(told.wait_for(5s), std::future_status::ready);
  EXPECT_EQ(told.get(), kWorld - 1);
}

TEST(LostRankTest, is_described_with_what_is_known) {
  LostRank lost;
  lost.rank = 1;
  lost.host = "h";
  lost.pid = 123;
  lost.reason = "was killed by " + signal_name(9);
  lost.step = 12;
  lost.label = "resnet50 ddp 2 ranks";
  EXPECT_EQ(describe(lost),
            "rank 1 (host h, pid 123) was killed by SIGKILL after step 12 of resnet50 ddp 2 ranks");
  lost.step = 0;
  EXPECT_EQ(describe(lost),
            "rank 1 (host h, pid 123) was killed by SIGKILL before the end of the first step of resnet50 ddp "
            "2 ranks");
  lost.label = "";
  lost.detail = "more";
  EXPECT_EQ(describe(lost), "rank 1 (host h, pid 123) was killed by SIGKILL while starting: more");
}

}  // namespace
}  // namespace lockstep::launch
