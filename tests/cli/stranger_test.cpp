#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/tcp_socket.h"

#include "cli/program.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr const char* kStrangerToken = "00112233445566778899aabbccddeeff";
constexpr int kMostGrowth_kb = 20 << 10;

/// The last number after `name` in `text`; -1 without it.
int number_after(const std::string& text, const std::string& name) {
  const size_t at = text.rfind(name);
  return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + name.size());
}

/// Ranks as on several hosts, whose listeners are TCP ports.
class StrangerProgramTest : public testing::Test {
 protected:
  test::Program::Environment rank(int rank, int world = 2) const {
    return {{"RANK", std::to_string(rank)},    {"WORLD_SIZE", std::to_string(world)}, {"LOCAL_RANK", "0"},
            {"LOCAL_WORLD_SIZE", "1"},         {"MASTER_ADDR", "127.0.0.1"},          {"MASTER_PORT", port_},
            {"LOCKSTEP_TOKEN", kStrangerToken}};
  }

  static std::vector<std::string> stranger_at(pid_t pid, const char* listeners) {
    return {"python3",           LOCKSTEP_SOURCE_DIR "/tests/cli/stranger.py",
            std::to_string(pid), listeners,
            kLoopback,           "100"};
  }

  /// Waits until rank 0 hosts the job's server.
  void wait_for_server() const {
    for (int waits = 0; waits < 6000; ++waits) {
      try {
        connect_tcp(kLoopback, std::stoi(port_), Clock::now() + std::chrono::seconds(1));
        return;
      } catch (const CommError&) {
        ::usleep(10'000);
      }
    }
    ADD_FAILURE() << "nobody listens on port " << port_;
  }

  std::string port_ = std::to_string(listen_tcp(kLoopback, 0).port);
};

/// Before the ranks meet, and while they train.
TEST_F(StrangerProgramTest, changes_nothing_at_the_server_of_the_job) {
  const std::vector<std::string> training{
      "lockstep", "train",  "--model", "lenet5",    "--data",   LOCKSTEP_SOURCE_DIR "/data/digits",
      "--batch",  "16",     "--lr",    "0.02",      "--epochs", "15",
      "--eval",   "--bind", "none",    "--threads", "1"};
  const auto attack = [](const test::Program& program) {
    const test::Finished stranger = test::run(stranger_at(program.pid(), "1"));
    EXPECT_EQ(stranger.exit_code, 0) << stranger.error;
    EXPECT_EQ(number_after(stranger.output, "listeners: "), 1) << stranger.output;
    EXPECT_LE(number_after(stranger.output, "grown: "), kMostGrowth_kb) << stranger.output;
  };
  std::vector<std::string> parameters;
  for (const bool attacked : {false, true}) {
    test::Program first(training, rank(0));
    wait_for_server();
    if (attacked) attack(first);
    test::Program second(training, rank(1));
    if (attacked) {
      // The third epoch is over: the job has all the memory that it wants.
      for (int waits = 0; waits < 6000 && first.output().find("\n    3 ") == std::string::npos; ++waits) {
        ::usleep(10'000);
      }
      attack(first);
    }
    EXPECT_EQ(first.wait(), 0) << first.error();
    EXPECT_EQ(second.wait(), 0) << second.error();
    parameters.push_back(first.output().substr(first.output().find("parameters ")));
    EXPECT_EQ(test::occurrences(first.error(), "a stranger at 127.0.0.1:"), attacked ? 1U : 0U)
        << first.error();
  }
  EXPECT_EQ(parameters[0], parameters[1]);
}

/// The batches come over ZeroMQ, from a producer that knows the token.
TEST_F(StrangerProgramTest, changes_nothing_at_the_address_of_batches) {
  const std::string address = "tcp://127.0.0.1:" + port_;
  test::Program feed({"lockstep", "feed", "--address", address, "--batch", "4", "--image-size", "32",
                      "--classes", "10", "--rate", "400"},
                     {{"LOCKSTEP_TOKEN", kStrangerToken}});
  test::Program bench(
      {"lockstep", "bench",     "--model", "trivial", "--image-size",  "32",        "--threads", "1",
       "--warmup", "2",         "--steps", "1500",    "--no-controls", "--batch",   "4",         "--input",
       "zmq",      "--address", address,   "--bind",  "none",          "--timeout", "60"},
      rank(0, 1));
  ASSERT_TRUE(bench.wait_for_error("trivial")) << bench.error();
  const test::Finished told = test::run(stranger_at(bench.pid(), "1"));
  EXPECT_THAT(told.output, HasSubstr("zmq: ")) << told.error;
  EXPECT_EQ(number_after(told.output, "listeners: "), 1) << told.output;
  EXPECT_LE(number_after(told.output, "grown: "), kMostGrowth_kb) << told.output;
  EXPECT_EQ(bench.wait(), 0) << bench.error();
  EXPECT_THAT(bench.output(), HasSubstr("Rank 0 refused"));
  feed.signal(SIGTERM);
  EXPECT_EQ(feed.wait(), 143) << feed.error();
}

TEST_F(StrangerProgramTest, producers_with_another_token_are_not_heard) {
  const std::string address = "tcp://127.0.0.1:" + port_;
  test::Program feed({"lockstep", "feed", "--address", address, "--batch", "4", "--image-size", "32"},
                     {{"LOCKSTEP_TOKEN", "ffeeddccbbaa99887766554433221100"}});
  const test::Finished bench = test::run(
      {"lockstep", "bench", "--model", "trivial", "--image-size", "32", "--threads", "1", "--steps", "2",
       "--no-controls", "--batch", "4", "--input", "zmq", "--address", address, "--timeout", "2"},
      rank(0, 1));
  EXPECT_EQ(bench.exit_code, 1);
  EXPECT_THAT(bench.error, HasSubstr("were refused, the first: a connection without the token"));
}

TEST_F(StrangerProgramTest, the_example_in_python_knows_the_token) {
  const std::string address = "tcp://127.0.0.1:" + port_;
  const std::string token_file = testing::TempDir() + "lockstep-token-" + port_;
  std::ofstream(token_file) << kStrangerToken << '\n';
  test::Program feed({LOCKSTEP_SOURCE_DIR "/.venv-tests/bin/python3", LOCKSTEP_SOURCE_DIR "/examples/feed.py",
                      address, "4", "32", "12"},
                     {{"LOCKSTEP_TOKEN_FILE", token_file}});
  const test::Finished bench = test::run(
      {"lockstep", "bench", "--model", "trivial", "--image-size", "32", "--threads", "1", "--warmup", "2",
       "--steps", "10", "--no-controls", "--batch", "4", "--input", "zmq", "--address", address},
      rank(0, 1));
  EXPECT_EQ(bench.exit_code, 0) << bench.error << feed.error();
  EXPECT_EQ(feed.wait(), 0) << feed.error();
  std::filesystem::remove(token_file);
}

/// Addresses at which these processes listen and that other hosts could reach, as the system writes them.
std::vector<std::string> open_listeners(const std::vector<pid_t>& pids) {
  std::vector<std::string> all;
  for (const pid_t pid : pids) {
    std::set<std::string> sockets;
    std::error_code gone;
    for (const auto& fd : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone)) {
      sockets.insert(std::filesystem::read_symlink(fd, gone).string());
    }
    for (const char* table : {"tcp", "tcp6"}) {
      std::ifstream lines("/proc/" + std::to_string(pid) + "/net/" + table);
      std::string line, number, local, remote, state, word, inode;
      std::getline(lines, line);
      while (std::getline(lines, line)) {
        std::istringstream fields(line);
        fields >> number >> local >> remote >> state;
        for (int i = 0; i < 5; ++i) fields >> word;
        fields >> inode;
        const bool is_local =
            local.starts_with("0100007F:") || local.starts_with("00000000000000000000000001000000:");
        if (state == "0A" && sockets.contains("socket:[" + inode + "]") && !is_local) all.push_back(local);
      }
    }
  }
  return all;
}

/// mpirun itself listens as Open MPI does; its ranks are looked at.
TEST(ListenersTest, a_job_on_one_host_listens_on_the_loopback_address_only) {
  for (const std::string backend : {"gloo", "mpi"}) {
    test::Program bench({"lockstep", "bench", "--model", "trivial", "--image-size", "32", "--threads", "1",
                         "--ranks", "2", "--backend", backend, "--steps", "100000", "--warmup", "2",
                         "--no-controls"});
    // The progress line of steps: the ranks are connected.
    ASSERT_TRUE(bench.wait_for_error("trivial")) << bench.error();
    ::usleep(2'000'000);
    std::vector<pid_t> all =
        backend == "mpi" ? bench.descendants("OMPI_COMM_WORLD_SIZE", "2") : bench.descendants();
    EXPECT_GE(all.size(), 2U) << backend;
    EXPECT_EQ(open_listeners(all), std::vector<std::string>()) << backend;
    bench.signal(SIGTERM);
    EXPECT_EQ(bench.wait(), 143) << bench.error();
  }
}

/// Three processes each, in a folder of this user's that all may write to, and in one of the stranger's.
TEST(StrangerFoldersTest, nothing_of_another_users_is_run_or_followed_in_a_folder_that_is_shared) {
  // Only root can be a stranger, too.
  if (::geteuid() != 0) return;
  const test::Finished told =
      test::run({"python3", LOCKSTEP_SOURCE_DIR "/tests/cli/stranger.py", "folders", LOCKSTEP_PROGRAM});
  EXPECT_EQ(told.exit_code, 0) << told.error;
  EXPECT_EQ(test::occurrences(told.output, "other users may write to"), 1u) << told.output;
  EXPECT_EQ(test::occurrences(told.output, "is another user's"), 1u) << told.output;
  EXPECT_EQ(test::occurrences(told.output, "left: []"), 2u) << told.output;
  for (const char* what : {"ran: ", "changed: ", "read: "})
    EXPECT_EQ(number_after(told.output, what), 0) << told.output;
}

}  // namespace
}  // namespace lockstep
