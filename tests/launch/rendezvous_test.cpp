#include "lockstep/launch/rendezvous.h"

#include <csignal>
#include <filesystem>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host_name.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

class RendezvousTest : public ::testing::Test {
 protected:
  RendezvousTest()
      : job_(::testing::UnitTest::GetInstance()->current_test_info()->name() + std::to_string(::getpid())),
        folder_(fs::temp_directory_path() / ("lockstep-" + std::to_string(::geteuid()) + "-" + job_)) {}
  ~RendezvousTest() override { fs::remove_all(folder_); }

  RankEnvironment rank(int rank) const {
    RankEnvironment environment;
    environment.rank = environment.local_rank = rank;
    environment.world = environment.local_world = 2;
    environment.launcher = Launcher::kMpirun;
    environment.job_id = job_;
    return environment;
  }

  /// The folders of this job.
  std::vector<fs::path> published() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_.parent_path()))
      if (entry.path().string().starts_with(folder_.string() + "-")) found.push_back(entry.path());
    return found;
  }

  std::string job_;
  fs::path folder_;
};

TEST_F(RendezvousTest, ranks_of_one_host_meet_through_a_private_file_that_goes_away) {
  Rendezvous other(rank(1));
  EXPECT_FALSE(other.hosts_server());
  auto found = std::async(std::launch::async, [&] { return other.address(10s); });
  {
    RankEnvironment first = rank(0);
    // An address that other hosts can reach.
    first.master_addr = host_name();
    Rendezvous host(first);
    EXPECT_EQ(host.address(0s).host, "127.0.0.1");
    EXPECT_TRUE(host.hosts_server());
    EXPECT_EQ(host.address(0s).port, 0);
    host.publish(4711, 1s);
    ASSERT_EQ(published().size(), 1U);
    EXPECT_EQ(fs::status(published().front()).permissions(), fs::perms::owner_all);
    const Address address = found.get();
    EXPECT_EQ(address.host, "127.0.0.1");
    EXPECT_EQ(address.port, 4711);
    EXPECT_EQ(address.token, host.address(0s).token);
    EXPECT_EQ(address.token.size(), 32U);
  }
  EXPECT_EQ(published().size(), 0U);
}

TEST_F(RendezvousTest, the_file_of_a_killed_rank_0_goes_away) {
  const auto publish_and_die = [&] {
    Rendezvous host(rank(0));
    host.publish(4711, 1s);
    ::raise(published().size() == 1 ? SIGKILL : SIGABRT);
  };
  EXPECT_EXIT(publish_and_die(), ::testing::KilledBySignal(SIGKILL), "");
  for (int look = 0; look < 50 && !published().empty(); ++look) std::this_thread::sleep_for(100ms);
  EXPECT_EQ(published().size(), 0U);
}

TEST_F(RendezvousTest, what_a_killed_job_left_behind_is_not_believed) {
  const fs::path left = make_private_folder(folder_.filename());
  write_file_atomically(left / "server", "4711 " + std::to_string(::getpid()) + " 1 token\n");
  EXPECT_THROW(Rendezvous(rank(1)).address(100ms), TimeoutError);
  fs::remove_all(left);
}

TEST_F(RendezvousTest, a_folder_that_somebody_planted_keeps_nobody_from_meeting) {
  // With the name that folders had before the end of it was random, and of another user.
  for (const char* name : {"", "-aaaaaa"}) {
    const fs::path planted = folder_.string() + name;
    fs::create_directory(planted);
    write_file_atomically(planted / "server", "1 1 1 token\n");
    fs::permissions(planted, fs::perms::all);
    ::lchown(planted.c_str(), 65534, 65534);
  }
  Rendezvous host(rank(0));
  host.publish(4711, 1s);
  EXPECT_EQ(Rendezvous(rank(1)).address(1s).port, 4711);
  fs::remove_all(folder_.string() + "-aaaaaa");
}

TEST_F(RendezvousTest, several_hosts_use_a_given_port_and_token) {
  RankEnvironment environment = rank(1);
  environment.world = 4;
  environment.master_addr = "127.0.0.1";
  environment.master_port = 5000;
  environment.token = "secret";
  const Address address = Rendezvous(environment).address(0s);
  EXPECT_EQ(address.host, "127.0.0.1");
  EXPECT_EQ(address.port, 5000);
  EXPECT_EQ(address.token, "secret");
}

TEST_F(RendezvousTest, several_hosts_need_an_address_and_agree_on_a_port) {
  RankEnvironment environment = rank(1);
  environment.world = 4;
  try {
    Rendezvous refused(environment);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("MASTER_ADDR"));
  }
  environment.master_addr = "127.0.0.1";
  RankEnvironment first = rank(0);
  first.world = 4;
  first.master_addr = "127.0.0.1";
  const Address address = Rendezvous(environment).address(0s);
  EXPECT_NE(address.port, 0);
  EXPECT_EQ(address.port, Rendezvous(first).address(0s).port);
}

TEST_F(RendezvousTest, a_host_that_does_not_exist_is_an_error_at_once) {
  for (const int number : {0, 1}) {
    RankEnvironment environment = rank(number);
    environment.world = 4;
    environment.master_addr = "no-such-host.invalid";
    try {
      Rendezvous refused(environment);
      FAIL();
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("cannot find host 'no-such-host.invalid'"));
      EXPECT_THAT(error.advice(), HasSubstr("MASTER_ADDR"));
    }
  }
}

TEST_F(RendezvousTest, the_address_of_the_launcher_stands_in_for_a_name_that_does_not_resolve) {
  for (const std::string name : {"", "no-such-host.invalid"}) {
    for (const int number : {0, 1}) {
      RankEnvironment environment = rank(number);
      environment.world = 4;
      environment.master_addr = name;
      environment.launcher_addr = "127.0.0.1";
      EXPECT_EQ(Rendezvous(environment).address(0s).host, "127.0.0.1");
      // An address of the documentation's network, which no host has; only rank 0 can know that.
      environment.launcher_addr = "192.0.2.1";
      if (number == 1) {
        EXPECT_EQ(Rendezvous(environment).address(0s).host, "192.0.2.1");
        continue;
      }
      try {
        Rendezvous refused(environment);
        FAIL();
      } catch (const ConfigError& error) {
        EXPECT_THAT(error.what(), HasSubstr("not at 192.0.2.1, where mpirun runs"));
        EXPECT_THAT(error.advice(), HasSubstr("MASTER_ADDR"));
      }
    }
  }
}

/// torchrun's agents keep one store for all commands that follow each other in their ranks.
TEST_F(RendezvousTest, ranks_under_agents_of_several_hosts_find_the_server_of_the_last_command) {
  const auto agent = std::make_shared<comm::HashStore>();
  const OpenAgentStore open = [&](const std::string& host, int port, auto) {
    EXPECT_EQ(host, "127.0.0.1");
    EXPECT_EQ(port, 29500);
    return agent;
  };
  RankEnvironment first = rank(0);
  first.local_world = 1;
  first.has_agent_store = true;
  first.master_addr = "127.0.0.1";
  first.master_port = 29500;
  RankEnvironment second = first;
  second.rank = 1;
  for (const std::string token : {"", "0123456789abcdef0123456789abcdef"}) {
    first.token = second.token = token;
    for (const int port : {4711, 4712}) {
      Rendezvous host(first, open);
      EXPECT_EQ(host.address(0s).port, 0);
      host.publish(port, 1s);
      const Address address = Rendezvous(second, open).address(1s);
      EXPECT_EQ(address.port, port);
      EXPECT_EQ(address.token, host.address(0s).token);
      EXPECT_EQ(address.token.size(), 32U);
    }
    // A token of the user's stays out of the store, which everybody can read.
    EXPECT_EQ(agent->get("lockstep/" + job_ + "/server", 0s) == "4712 ", !token.empty());
  }
}

}  // namespace
}  // namespace lockstep::launch
