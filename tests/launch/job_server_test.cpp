#include "lockstep/launch/job_server.h"

#include <algorithm>
#include <fstream>
#include <future>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/job_link.h"

#include "comm/store_contract.h"

namespace lockstep::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kServedToken = "00112233445566778899aabbccddeeff";

/// Ranks that are links in this process.
class JobServerTest : public ::testing::Test {
 protected:
  void serve(int world, JobServer::Options options = {}) {
    options.job = {"job", kServedToken, world};
    server_ = std::make_unique<JobServer>(std::move(options));
  }

  JobLink::Options options_of(int rank) const {
    JobLink::Options options;
    options.job = {"job", "", 1};
    options.rank = rank;
    options.at = {kLoopback, server_->port(), kServedToken};
    options.join_timeout = 5s;
    options.timeout = 10s;
    options.progress = &progress_;
    return options;
  }

  std::unique_ptr<JobLink> join(int rank) const { return std::make_unique<JobLink>(options_of(rank)); }

  static LostRank failure(LostRank::Kind kind, const std::string& text) {
    LostRank lost;
    lost.kind = kind;
    lost.reason = "failed";
    lost.detail = text;
    return lost;
  }

  Progress progress_;
  std::unique_ptr<JobServer> server_;
};

// The meeting.

TEST_F(JobServerTest, ranks_meet_when_all_have_come) {
  serve(3);
  const auto first = join(0);
  const auto second = join(1);
  auto met = std::async(std::launch::async, [&] { first->wait_met(); });
  EXPECT_EQ(met.wait_for(300ms), std::future_status::timeout);
  EXPECT_FALSE(second->met());
  const auto third = join(2);
  met.get();
  second->wait_met();
  third->wait_met();
  EXPECT_FALSE(server_->cause());
}

TEST_F(JobServerTest, missing_ranks_are_named_while_they_are_waited_for) {
  std::promise<std::string> said;
  bool is_said = false;
  JobServer::Options options;
  options.join_timeout = 20s;
  options.report_every = 100ms;
  options.on_waiting = [&](const std::string& line) {
    if (!std::exchange(is_said, true)) said.set_value(line);
  };
  serve(3, std::move(options));
  const auto first = join(0);
  EXPECT_THAT(said.get_future().get(), AllOf(HasSubstr("waiting for ranks "), HasSubstr("1, 2 of 3 since "),
                                             HasSubstr("for 20 s at most (--join-timeout)")));
}

TEST_F(JobServerTest, ranks_that_do_not_come_in_time_end_the_job) {
  JobServer::Options options;
  options.join_timeout = 300ms;
  serve(3, std::move(options));
  const auto first = join(0);
  try {
    first->wait_met();
    FAIL();
  } catch (const PeerLostError& error) {
    EXPECT_EQ(error.what(), std::string("only 1 of 3 ranks came within 0.3 s: ranks 1, 2 did not"));
    EXPECT_THAT(error.advice(), HasSubstr("--join-timeout"));
  }
}

TEST_F(JobServerTest, a_rank_that_cannot_come_ends_the_job_for_all_with_its_error) {
  serve(3);
  const auto first = join(0);
  const auto third = join(2);
  const LostRank own = failure_of(2, ConfigError("there is no file 'a'", "Name one."));
  ASSERT_TRUE(third->report(own, 5s));
  const auto lost = first->wait_lost(5s);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 2);
  EXPECT_THAT(lost->trouble().what, HasSubstr("failed while starting: there is no file 'a'"));
  EXPECT_EQ(lost->trouble().advice, "Name one.");
  EXPECT_EQ(lost->trouble().exit_code, kExitUsage);
  // A late rank learns the same.
  auto informed = std::async(std::launch::async, [&] { server_->wait_informed(20s); });
  EXPECT_EQ(informed.wait_for(100ms), std::future_status::timeout);
  EXPECT_EQ(join(1)->wait_lost(5s)->rank, 2);
  informed.get();
}

TEST_F(JobServerTest, a_rank_that_is_there_already_is_named_at_once) {
  serve(2);
  const auto first = join(0);
  const auto second = join(1);
  try {
    const JobLink twice(options_of(1));
    FAIL();
  } catch (const TurnedAway& error) {
    EXPECT_THAT(error.what(), HasSubstr("turned rank 1 away: rank 1 is there already (host "));
  }
  EXPECT_FALSE(second->wait_lost(100ms));
}

/// This may be the server of an earlier command, which ends soon.
TEST_F(JobServerTest, the_end_of_a_job_whose_rank_has_left_is_waited_for) {
  serve(2);
  const auto first = join(0);
  join(1)->goodbye();
  JobLink::Options options = options_of(1);
  options.join_timeout = 300ms;
  EXPECT_THROW(const JobLink later(options), TimeoutError);
}

// The store.

TEST_F(JobServerTest, is_a_store) {
  serve(2);
  const auto one = join(0);
  const auto other = join(1);
  comm::check_values(*one, *other);
  comm::check_waiting(*one);
  comm::check_counting(*one);
  EXPECT_THROW(one->set("too large", std::string(1 << 20, 'x')), Error);
}

TEST_F(JobServerTest, large_values_of_several_threads_share_the_connection) {
  serve(1);
  const auto link = join(0);
  std::vector<std::future<void>> setting;
  for (char c = 'a'; c < 'e'; ++c) {
    setting.push_back(
        std::async(std::launch::async, [&, c] { link->set(std::string(1, c), std::string(500'000, c)); }));
  }
  for (auto& one : setting) one.get();
  for (char c = 'a'; c < 'e'; ++c) EXPECT_EQ(link->get(std::string(1, c), 10s), std::string(500'000, c));
}

TEST_F(JobServerTest, ranks_that_wait_for_one_key_all_get_it) {
  serve(3);
  std::vector<std::unique_ptr<JobLink>> links;
  std::vector<std::future<std::string>> waiting;
  for (int rank = 0; rank < 3; ++rank) {
    links.push_back(join(rank));
    waiting.push_back(
        std::async(std::launch::async, [&link = *links.back()] { return link.get("key", 10s); }));
  }
  EXPECT_THROW(links[1]->get("key", 50ms), TimeoutError);
  links[0]->set("key", "value");
  for (auto& one : waiting) EXPECT_EQ(one.get(), "value");
}

TEST_F(JobServerTest, a_waiting_get_learns_that_the_server_is_gone) {
  serve(1);
  comm::check_lost_server(*join(0), [&] { server_.reset(); });
}

// The watch.

TEST_F(JobServerTest, all_goodbyes_are_an_orderly_end) {
  serve(2);
  const auto first = join(0);
  const auto second = join(1);
  first->goodbye();
  EXPECT_FALSE(server_->wait_finished(0s));
  second->goodbye();
  EXPECT_TRUE(server_->wait_finished(5s));
  EXPECT_FALSE(server_->cause());
}

TEST_F(JobServerTest, a_connection_that_ends_is_a_lost_rank_with_its_last_step) {
  serve(2);
  progress_.begin("lenet5 ddp 2 ranks");
  progress_.completed(12);
  auto first = join(0);
  const auto second = join(1);
  second->wait_met();
  first.reset();
  const auto lost = second->wait_lost(5s);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 0);
  EXPECT_EQ(lost->step, 12);
  EXPECT_THAT(lost->trouble().what, HasSubstr("ended without a goodbye after step 12 of lenet5 ddp 2 ranks"));
  EXPECT_THROW(second->get("key", 5s), PeerLostError);
}

TEST_F(JobServerTest, an_end_of_the_server_is_orderly_only_when_said) {
  serve(2);
  const auto first = join(0);
  server_.reset();
  EXPECT_FALSE(first->wait_lost(5s));
}

TEST_F(JobServerTest, a_broken_connection_is_put_down_to_the_rank_that_broke_it) {
  JobServer::Options options;
  // Longer than complaints are held back.
  options.end_deferral = 1300ms;
  serve(3, std::move(options));
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
  EXPECT_EQ(server_->cause()->rank, 1);
  EXPECT_EQ(third->wait_lost(5s)->rank, 1);
  EXPECT_EQ(server_->lost().front().rank, 1);
}

/// A peer may be of another version, or taken over: its texts go to a terminal, its exit code to a script.
TEST_F(JobServerTest, an_error_reaches_all_at_once_with_any_text_cleaned) {
  serve(2);
  const auto first = join(0);
  const auto second = join(1);
  LostRank own = failure(LostRank::Kind::kFailed, "not UTF-8: \xff\n a \x1b]0;title\x07 and a new line");
  own.advice = "c\rd";
  own.exit_code = 256;
  const auto verdict = second->report(own, 5s);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 1);
  const auto told = first->wait_lost(5s);
  ASSERT_TRUE(told);
  EXPECT_THAT(told->detail, HasSubstr("\n a ?]0;title? and a new line"));
  EXPECT_EQ(told->advice, "c?d");
  EXPECT_EQ(told->trouble().exit_code, kExitFailed);
}

TEST_F(JobServerTest, a_signal_at_one_rank_reaches_all) {
  serve(2);
  std::promise<int> told;
  JobLink::Options options = options_of(0);
  options.on_leave = [&](int signal) { told.set_value(signal); };
  const JobLink first(std::move(options));
  const auto second = join(1);
  second->report_signal(15);
  auto signal = told.get_future();
  ASSERT_EQ(signal.wait_for(5s), std::future_status::ready);
  EXPECT_EQ(signal.get(), 15);
  EXPECT_EQ(server_->cause()->exit_code, 143);
  EXPECT_EQ(Leave{2}.ending_signal(), 2);
  EXPECT_EQ(Leave{99}.ending_signal(), 15);
}

// Rank 0's process, where the server may live, ends as soon as it learns. So many ranks that the time to
// inform them all is seen.
TEST_F(JobServerTest, rank_0_learns_of_a_loss_when_the_others_have_been_told) {
  constexpr int kWorld = 150;
  serve(kWorld);
  std::vector<Channel> others;
  const auto has_been_told = [](Channel& other) {
    other.receive();
    for (auto message = other.next(); message; message = other.next()) {
      if (message->is() == "lost") return true;
    }
    return false;
  };
  std::promise<std::ptrdiff_t> told_before;
  JobLink::Options options = options_of(0);
  options.on_lost = [&](const LostRank& /*lost*/) {
    told_before.set_value(std::count_if(others.rbegin(), others.rend(), has_been_told));
  };
  const JobLink first(std::move(options));
  for (int rank = 1; rank < kWorld; ++rank) {
    others.push_back(enter(kLoopback, server_->port(), {"job", kServedToken, kWorld}, rank, 5s).channel);
  }
  LostRank killed;
  killed.rank = 2;
  killed.reason = "killed by signal 9";
  server_->declare_lost(killed);
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
  EXPECT_EQ(lost.trouble().what,
            "rank 1 (host h, pid 123) was killed by SIGKILL after step 12 of resnet50 ddp 2 ranks");
  lost.step = 0;
  EXPECT_EQ(lost.trouble().what,
            "rank 1 (host h, pid 123) was killed by SIGKILL before the end of the first step of resnet50 ddp "
            "2 ranks");
  lost.label = "";
  lost.detail = "more";
  EXPECT_EQ(lost.trouble().what, "rank 1 (host h, pid 123) was killed by SIGKILL while starting: more");
}

// Addresses.

TEST(LoopbackTest, every_loopback_address_is_listened_on) {
  std::vector<std::string> hosts{kLoopback, "127.0.0.2", "localhost"};
  std::ifstream ip6("/proc/net/if_inet6");
  const std::string text(std::istreambuf_iterator<char>(ip6), {});
  if (text.find(" lo\n") != std::string::npos) hosts.emplace_back("::1");
  for (const std::string& host : hosts) {
    EXPECT_TRUE(connect_tcp(host, listen_tcp(host, 0).port, Clock::now() + 5s)) << host;
  }
  const Listener listener = listen_tcp("127.0.0.2", 0);
  EXPECT_TRUE(connect_tcp("127.0.0.2", listener.port, Clock::now() + 1s));
  EXPECT_THROW(connect_tcp(kLoopback, listener.port, Clock::now() + 1s), CommError);
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
