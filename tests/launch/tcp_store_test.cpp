#include "lockstep/launch/tcp_store.h"

#include <future>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/base/error.h"
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

/// The store that torchrun's agent hosts, at any free port.
c10::intrusive_ptr<c10d::TCPStore> agent_at(int port = 0) {
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.waitWorkers = false;
  options.port = static_cast<uint16_t>(port);
  return c10::make_intrusive<c10d::TCPStore>(kLoopback, options);
}

std::unique_ptr<comm::Store> client_of_agent(c10d::TCPStore& agent) {
  return connect_agent_store(kLoopback, agent.getPort(), "test", 10s, 10s);
}

TEST(AgentStoreTest, values_pass_from_one_rank_to_another) {
  const auto agent = agent_at();
  check_values(*client_of_agent(*agent), *client_of_agent(*agent));
}

TEST(AgentStoreTest, a_waiting_get_sleeps_and_a_missing_key_is_named) {
  check_waiting(*client_of_agent(*agent_at()));
}

TEST(AgentStoreTest, add_is_atomic) {
  check_counting(*client_of_agent(*agent_at()));
}

TEST(AgentStoreTest, a_waiting_get_learns_that_the_agent_is_gone) {
  auto agent = agent_at();
  check_lost_server(*client_of_agent(*agent), [&] { agent.reset(); });
}

TEST(AgentStoreTest, nobody_there_is_a_time_out_that_names_the_address_and_prints_nothing) {
  const int port = listen_tcp(kLoopback, 0).port;
  ::testing::internal::CaptureStderr();
  try {
    connect_agent_store(kLoopback, port, "test", 500ms, 10s);
    FAIL();
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1:" + std::to_string(port)));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

class JoinTest : public ::testing::Test {
 protected:
  RankEnvironment rank(int rank, int world = 2) const {
    RankEnvironment environment;
    environment.rank = environment.local_rank = rank;
    environment.world = environment.local_world = world;
    environment.launcher = Launcher::kTorchrun;
    // Jobs of one name meet in one folder, and tests run side by side.
    environment.job_id = "test-" + std::to_string(::getpid());
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
  const auto agent = agent_at(port_);
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
