#include "lockstep/launch/tcp_store.h"

#include <fstream>
#include <future>
#include <iterator>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/tcp_socket.h"

namespace lockstep::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

double processor_time_s() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(TcpStoreTest, values_pass_from_one_process_side_to_the_other) {
  const auto server = make_tcp_store("127.0.0.1", 0, true, 10s);
  const auto client = make_tcp_store("127.0.0.1", server->port(), false, 10s);
  const std::string value("a\0b", 3);
  client->set("key", value);
  EXPECT_EQ(server->get("key", 1s), value);
  client->set("empty", "");
  EXPECT_EQ(server->get("empty", 1s), "");
  EXPECT_EQ(server->add("count", 2), 2);
  EXPECT_EQ(client->add("count", -1), 1);
}

TEST(TcpStoreTest, a_waiting_get_sleeps_and_lets_others_through) {
  const auto store = make_tcp_store("127.0.0.1", 0, true, 10s);
  auto waiting = std::async(std::launch::async, [&] { return store->get("late", 10s); });
  const double before_s = processor_time_s();
  EXPECT_EQ(waiting.wait_for(500ms), std::future_status::timeout);
  EXPECT_LT(processor_time_s() - before_s, 0.1);  // a loop would have taken all of it
  store->set("late", "now");
  EXPECT_EQ(waiting.get(), "now");
}

TEST(TcpStoreTest, a_missing_key_is_named_and_the_store_goes_on) {
  const auto store = make_tcp_store("127.0.0.1", 0, true, 10s);
  try {
    store->get("missing", 100ms);
    FAIL();
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'missing'"));
  }
  store->set("missing", "here");
  EXPECT_EQ(store->get("missing", 1s), "here");
}

TEST(TcpStoreTest, a_waiting_get_learns_that_the_server_is_gone) {
  auto server = make_tcp_store("127.0.0.1", 0, true, 10s);
  const auto client = make_tcp_store("127.0.0.1", server->port(), false, 10s);
  auto waiting = std::async(std::launch::async, [&] { return client->get("never", 60s); });
  EXPECT_EQ(waiting.wait_for(100ms), std::future_status::timeout);
  server.reset();
  EXPECT_THROW(waiting.get(), PeerLostError);
}

TEST(TcpStoreTest, a_port_in_use_is_named) {
  const Listener taken = listen_tcp(kLoopback, 0);
  try {
    make_tcp_store("127.0.0.1", taken.port, true, 10s);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("port " + std::to_string(taken.port) + " is in use"));
    EXPECT_THAT(error.advice(), HasSubstr("MASTER_PORT"));
  }
}

TEST(TcpStoreTest, nobody_there_is_a_time_out_that_names_the_address_and_prints_nothing) {
  const int port = listen_tcp(kLoopback, 0).port;
  ::testing::internal::CaptureStderr();
  try {
    make_tcp_store("127.0.0.1", port, false, 500ms);
    FAIL();
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1:" + std::to_string(port)));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

/// The addresses by which this host may be meant alone.
std::vector<std::string> loopback_addresses() {
  std::vector<std::string> all{kLoopback, "127.0.0.2", "localhost"};
  std::ifstream ip6("/proc/net/if_inet6");
  const std::string text(std::istreambuf_iterator<char>(ip6), {});
  if (text.find(" lo\n") != std::string::npos) all.emplace_back("::1");
  return all;
}

TEST(TcpStoreTest, every_loopback_address_is_listened_on_and_no_other) {
  for (const std::string& host : loopback_addresses()) {
    const auto server = make_tcp_store(host, 0, true, 10s);
    make_tcp_store(host, server->port(), false, 10s)->set("host", host);
    EXPECT_EQ(server->get("host", 1s), host);
  }
  const Listener listener = listen_tcp("127.0.0.2", 0);
  EXPECT_TRUE(connect_tcp("127.0.0.2", listener.port, 1s));
  EXPECT_THROW(connect_tcp(kLoopback, listener.port, 1s), CommError);
}

class JoinTest : public ::testing::Test {
 protected:
  RankEnvironment rank(int rank, int world = 2) const {
    RankEnvironment environment;
    environment.rank = environment.local_rank = rank;
    environment.world = environment.local_world = world;
    environment.launcher = Launcher::kTorchrun;
    environment.job_id = "test";
    environment.master_addr = kLoopback;
    environment.master_port = port_;
    return environment;
  }

  int port_ = listen_tcp(kLoopback, 0).port;
};

TEST_F(JoinTest, missing_ranks_are_counted) {
  try {
    join_store(rank(0, 3), {.limit = 300ms});
    FAIL();
  } catch (const MeetingFailed& error) {
    EXPECT_THAT(error.what(), HasSubstr("only 1 of 3 ranks came within 0.3 s: ranks 1, 2 did not"));
    EXPECT_THAT(error.advice(), HasSubstr("--join-timeout"));
  }
}

TEST_F(JoinTest, a_rank_alone_needs_no_port) {
  const Listener taken = listen_tcp(kLoopback, port_);
  const auto store = join_store(rank(0, 1), {.limit = 1s}).store;
  store->set("key", "value");
  EXPECT_EQ(store->get("key", 0s), "value");
}

TEST_F(JoinTest, a_rank_says_that_rank_0_is_missing_and_finds_it_when_it_comes) {
  std::promise<std::string> said;
  bool is_said = false;
  Patience patience{.limit = 20s,
                    .on_waiting =
                        [&](const std::string& line) {
                          if (!std::exchange(is_said, true)) said.set_value(line);
                        },
                    .say_every = 100ms};
  auto first_come = std::async(std::launch::async, [&] { return join_store(rank(1), patience); });
  std::future<std::string> line = said.get_future();
  ASSERT_EQ(line.wait_for(20s), std::future_status::ready);
  EXPECT_THAT(line.get(), HasSubstr("waiting for rank 0 since "));
  const auto store = join_store(rank(0), {.limit = 20s}).store;
  first_come.get().store->set("key", "value");
  EXPECT_EQ(store->get("key", 10s), "value");
}

TEST_F(JoinTest, commands_follow_each_other_in_the_store_of_one_agent) {
  const auto agent = make_tcp_store(kLoopback, port_, true, 10s);
  for (const char* command : {"first", "second"}) {
    RankEnvironment environment = rank(0);
    environment.store_hosted_for_us = true;
    environment.local_world = 1;
    // Alone, rank 0 meets nobody, whatever a command before has left in the store.
    EXPECT_THROW(join_store(environment, {.limit = 200ms}), MeetingFailed) << command;
    auto other = std::async(std::launch::async, [environment]() mutable {
      environment.rank = environment.local_rank = 1;
      return join_store(environment, {.limit = 10s});
    });
    const auto store = join_store(environment, {.limit = 10s}).store;
    EXPECT_THROW(store->get("plan", 0s), TimeoutError) << command;
    other.get().store->set("plan", command);
    EXPECT_EQ(store->get("plan", 10s), command);
  }
}

}  // namespace
}  // namespace lockstep::launch
