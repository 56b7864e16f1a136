#include "lockstep/launch/job_store.h"

#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/host_name.h"
#include "lockstep/launch/reception.h"
#include "lockstep/launch/tcp_socket.h"

namespace lockstep::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

const JobMembers kMembers{"job", "00112233445566778899aabbccddeeff", 3};

std::unique_ptr<comm::Store> client_of(const StoreServer& server, int rank = 0) {
  return connect_store("127.0.0.1", server.port(), kMembers, rank, 5s, 10s);
}

double processor_time_used_s() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(JobStoreTest, values_pass_from_one_rank_to_another) {
  const StoreServer server(kLoopback, 0, kMembers);
  const auto one = client_of(server, 0);
  const auto other = client_of(server, 1);
  std::string every_byte(256, '\0');
  for (size_t i = 0; i < every_byte.size(); ++i) every_byte[i] = static_cast<char>(i);
  other->set("key", every_byte);
  EXPECT_EQ(one->get("key", 1s), every_byte);
  other->set("empty", "");
  EXPECT_EQ(one->get("empty", 1s), "");
  EXPECT_EQ(one->add("count", 2), 2);
  EXPECT_EQ(other->add("count", -1), 1);
  EXPECT_EQ(other->get("count", 1s), "1");
  const std::string large(300000, 'x');
  one->set("large", large);
  EXPECT_EQ(other->get("large", 5s), large);
  EXPECT_THROW(one->set("too large", std::string(1 << 20, 'x')), Error);
}

TEST(JobStoreTest, a_waiting_get_sleeps_and_lets_others_through) {
  const StoreServer server(kLoopback, 0, kMembers);
  const auto store = client_of(server);
  auto waiting = std::async(std::launch::async, [&] { return store->get("late", 10s); });
  const double before_s = processor_time_used_s();
  EXPECT_EQ(waiting.wait_for(500ms), std::future_status::timeout);
  EXPECT_LT(processor_time_used_s() - before_s, 0.1);  // a loop would have taken all of it
  store->set("late", "now");
  EXPECT_EQ(waiting.get(), "now");
}

TEST(JobStoreTest, a_missing_key_is_named_and_the_store_goes_on) {
  const StoreServer server(kLoopback, 0, kMembers);
  const auto store = client_of(server);
  try {
    store->get("missing", 100ms);
    FAIL();
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("nobody set 'missing'"));
  }
  store->set("missing", "here");
  EXPECT_EQ(store->get("missing", 1s), "here");
}

TEST(JobStoreTest, a_waiting_get_learns_that_the_server_is_gone) {
  auto server = std::make_unique<StoreServer>(kLoopback, 0, kMembers);
  const auto store = client_of(*server);
  auto waiting = std::async(std::launch::async, [&] { return store->get("never", 60s); });
  EXPECT_EQ(waiting.wait_for(100ms), std::future_status::timeout);
  server.reset();
  EXPECT_THROW(waiting.get(), PeerLostError);
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
