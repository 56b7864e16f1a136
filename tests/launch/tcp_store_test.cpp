#include "lockstep/launch/tcp_store.h"

#include <future>

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
  const Listener taken = listen_tcp(true, 0);
  try {
    make_tcp_store("127.0.0.1", taken.port, true, 10s);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("port " + std::to_string(taken.port) + " is in use"));
    EXPECT_THAT(error.advice(), HasSubstr("MASTER_PORT"));
  }
}

TEST(TcpStoreTest, nobody_there_is_a_time_out_that_names_the_address_and_prints_nothing) {
  const int port = listen_tcp(true, 0).port;
  ::testing::internal::CaptureStderr();
  try {
    make_tcp_store("127.0.0.1", port, false, 500ms);
    FAIL();
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1:" + std::to_string(port)));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(TcpStoreTest, missing_ranks_are_counted) {
  RankEnvironment environment;
  environment.world = 3;
  environment.local_world = 3;
  environment.launcher = Launcher::kTorchrun;
  environment.job_id = "test";
  environment.master_addr = "127.0.0.1";
  environment.master_port = listen_tcp(true, 0).port;
  try {
    join_tcp_store(environment, 300ms);
    FAIL();
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("only 1 of 3 ranks"));
  }
}

}  // namespace
}  // namespace lockstep::launch
