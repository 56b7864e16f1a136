#include "lockstep/launch/job_store.h"

#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/host_name.h"
#include "lockstep/launch/reception.h"
#include "lockstep/launch/tcp_socket.h"

#include "comm/store_contract.h"

namespace lockstep::launch {
namespace {

using namespace std::chrono_literals;
using comm::check_counting;
using comm::check_lost_server;
using comm::check_values;
using comm::check_waiting;
using ::testing::HasSubstr;

const JobMembers kMembers{"job", "00112233445566778899aabbccddeeff", 3};

std::unique_ptr<comm::Store> client_of(const StoreServer& server, int rank = 0) {
  return connect_store("127.0.0.1", server.port(), kMembers, rank, 5s, 10s);
}

TEST(JobStoreTest, values_pass_from_one_rank_to_another) {
  const StoreServer server(kLoopback, 0, kMembers);
  const auto one = client_of(server, 0);
  check_values(*one, *client_of(server, 1));
  EXPECT_THROW(one->set("too large", std::string(1 << 20, 'x')), Error);
}

TEST(JobStoreTest, a_waiting_get_sleeps_and_a_missing_key_is_named) {
  const StoreServer server(kLoopback, 0, kMembers);
  check_waiting(*client_of(server));
}

TEST(JobStoreTest, add_is_atomic) {
  const StoreServer server(kLoopback, 0, kMembers);
  check_counting(*client_of(server));
}

TEST(JobStoreTest, a_waiting_get_learns_that_the_server_is_gone) {
  auto server = std::make_unique<StoreServer>(kLoopback, 0, kMembers);
  check_lost_server(*client_of(*server), [&] { server.reset(); });
}

TEST(JobStoreTest, every_loopback_address_is_listened_on) {
  std::vector<std::string> hosts{kLoopback, "127.0.0.2", "localhost"};
  std::ifstream ip6("/proc/net/if_inet6");
  const std::string text(std::istreambuf_iterator<char>(ip6), {});
  if (text.find(" lo\n") != std::string::npos) hosts.emplace_back("::1");
  for (const std::string& host : hosts) {
    const StoreServer server(host, 0, kMembers);
    connect_store(host, server.port(), kMembers, 0, 5s, 10s)->set("host", host);
  }
  const Listener listener = listen_tcp("127.0.0.2", 0);
  EXPECT_TRUE(connect_tcp("127.0.0.2", listener.port, 1s));
  EXPECT_THROW(connect_tcp(kLoopback, listener.port, 1s), CommError);
}

TEST(JobStoreTest, ranks_that_wait_for_one_key_all_get_it) {
  const StoreServer server(kLoopback, 0, kMembers);
  std::vector<std::future<std::string>> waiting;
  for (int rank = 0; rank < 3; ++rank) {
    waiting.push_back(
        std::async(std::launch::async, [&, rank] { return client_of(server, rank)->get("key", 10s); }));
  }
  client_of(server, 0)->set("key", "value");
  for (auto& one : waiting) EXPECT_EQ(one.get(), "value");
}

TEST(JobStoreTest, without_the_token_nobody_comes_in) {
  std::string said;
  std::promise<std::string> stranger;
  const StoreServer server(kLoopback, 0, kMembers,
                           [&](const std::string& text) { stranger.set_value(text); });
  JobMembers others = kMembers;
  others.token = "ffffffffffffffffffffffffffffffff";
  EXPECT_THROW(connect_store("127.0.0.1", server.port(), others, 0, 5s, 5s), TurnedAway);
  others.token = "";
  EXPECT_THROW(connect_store("127.0.0.1", server.port(), others, 0, 5s, 5s), TurnedAway);
  EXPECT_THAT(stranger.get_future().get(), HasSubstr("the store of this job"));
}

RankEnvironment rank_of(int rank, int world, const std::string& job) {
  RankEnvironment environment;
  environment.rank = environment.local_rank = rank;
  environment.world = environment.local_world = world;
  environment.launcher = Launcher::kTorchrun;
  environment.job_id = job + std::to_string(::getpid());
  return environment;
}

TEST(JoinJobTest, missing_ranks_are_counted) {
  try {
    join_job_store(rank_of(0, 3, "missing"), {.limit = 300ms});
    FAIL();
  } catch (const MeetingFailed& error) {
    EXPECT_THAT(error.what(), HasSubstr("only 1 of 3 ranks"));
  }
}

/// Whatever MASTER_ADDR says, ranks of one host meet where other hosts cannot reach them, with a token that
/// no key has.
TEST(JoinJobTest, ranks_of_one_host_agree_on_a_token) {
  const int port = listen_tcp(kLoopback, 0).port;
  const auto join = [&](int rank) {
    RankEnvironment environment = rank_of(rank, 2, "token");
    environment.master_addr = host_name();
    environment.master_port = port;
    return join_job_store(environment, {.limit = 10s});
  };
  auto other = std::async(std::launch::async, [&] { return join(1); });
  const JoinedStore first = join(0);
  const JoinedStore second = other.get();
  EXPECT_EQ(first.token.size(), 32U);
  EXPECT_EQ(first.token, second.token);
  first.store->set("key", "value");
  EXPECT_EQ(second.store->get("key", 5s), "value");
  EXPECT_TRUE(connect_tcp(kLoopback, port, 1s));
  EXPECT_THROW(connect_tcp("127.0.0.2", port, 1s), CommError);
}

TEST(JoinJobTest, a_taken_port_of_several_hosts_is_named) {
  const Listener taken = listen_tcp(kLoopback, 0);
  RankEnvironment environment = rank_of(0, 2, "port");
  environment.local_world = 1;
  environment.master_addr = "127.0.0.1";
  environment.master_port = taken.port;
  try {
    join_job_store(environment, {.limit = 1s});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("port " + std::to_string(taken.port) + " is in use"));
  }
}

TEST(JoinJobTest, nobody_there_is_a_time_out_that_names_the_address) {
  RankEnvironment environment = rank_of(1, 2, "nobody");
  environment.local_world = 1;
  environment.master_addr = "127.0.0.1";
  environment.master_port = listen_tcp(kLoopback, 0).port;
  try {
    join_job_store(environment, {.limit = 300ms});
    FAIL();
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1:" + std::to_string(environment.master_port)));
  }
}

}  // namespace
}  // namespace lockstep::launch
