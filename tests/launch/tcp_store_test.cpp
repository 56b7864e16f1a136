#include "lockstep/launch/tcp_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/tcp_socket.h"

namespace lockstep::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// The store that torchrun's agent hosts.
c10::intrusive_ptr<c10d::TCPStore> new_agent() {
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.waitWorkers = false;
  options.port = 0;
  return c10::make_intrusive<c10d::TCPStore>(kLoopback, options);
}

TEST(AgentStoreTest, values_pass_from_one_rank_to_another_and_missing_ones_are_named) {
  const auto agent = new_agent();
  const auto one = open_agent_store(kLoopback, agent->getPort(), 10s);
  one->set("server", "4711 token");
  const auto other = open_agent_store(kLoopback, agent->getPort(), 10s);
  EXPECT_EQ(other->get("server", 10s), "4711 token");
  EXPECT_EQ(other->add("count", 2), 2);
  try {
    other->get("missing", 50ms);
    FAIL();
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("nobody set 'missing' in the launcher's store"));
  }
}

TEST(AgentStoreTest, an_agent_that_is_gone_is_named) {
  auto agent = new_agent();
  const auto client = open_agent_store(kLoopback, agent->getPort(), 10s);
  agent.reset();
  EXPECT_THROW(client->get("key", 5s), PeerLostError);
}

TEST(AgentStoreTest, nobody_there_is_a_time_out_that_names_the_address_and_prints_nothing) {
  const int port = listen_tcp(kLoopback, 0).port;
  ::testing::internal::CaptureStderr();
  try {
    open_agent_store(kLoopback, port, 500ms);
    FAIL();
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1:" + std::to_string(port)));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace lockstep::launch
