#include "lockstep/launch/reception.h"

#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/job_link.h"
#include "lockstep/launch/job_server.h"

namespace lockstep::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kToken = "00112233445566778899aabbccddeeff";
const JobKey kJob{"job", kToken, 2};

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

double processor_s() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Waits until the other end has closed the connection; false after 8 s.
bool is_closed(int fd) {
  const auto end = Clock::now() + 8s;
  char block[4096];
  while (Clock::now() < end) {
    const ssize_t got = ::recv(fd, block, sizeof block, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

/// The server of a job of two ranks, and what it said of strangers.
class ReceptionTest : public ::testing::Test {
 protected:
  ReceptionTest() {
    JobServer::Options options;
    options.job = kJob;
    options.on_stranger = [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      said_.push_back(text);
    };
    server_ = std::make_unique<JobServer>(std::move(options));
  }

  UniqueFd connect() const { return connect_tcp(kLoopback, server_->port(), Clock::now() + 5s); }

  Entered join(int rank, const std::string& token = kToken) const {
    return enter(kLoopback, server_->port(), {"job", token, 2}, rank, 20s);
  }

  std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }

  std::mutex mutex_;
  std::vector<std::string> said_;
  std::unique_ptr<JobServer> server_;
};

TEST_F(ReceptionTest, idle_connections_take_few_descriptors_and_ranks_come_in_between_them) {
  constexpr size_t kIdle = 100;
  constexpr size_t kMost = 2 + 16;
  const size_t before = open_descriptors();
  std::vector<UniqueFd> idle;
  for (size_t i = 0; i < kIdle; ++i) idle.push_back(connect());
  for (int look = 0; look < 10; ++look) {
    EXPECT_LE(open_descriptors(), before + kIdle + kMost + 2);
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_NO_THROW(join(0));
  EXPECT_NO_THROW(join(1));
  EXPECT_EQ(said().size(), 1U);
}

TEST_F(ReceptionTest, a_line_without_end_is_cut_off_after_some_kilobytes) {
  const UniqueFd stranger = connect();
  const std::string block(1 << 16, 'x');
  size_t sent = 0;
  const auto end = Clock::now() + 8s;
  while (Clock::now() < end) {
    const ssize_t got = ::send(stranger.get(), block.data(), block.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (got < 0 && errno != EAGAIN) break;
    if (got > 0) sent += static_cast<size_t>(got);
  }
  // The buffers of the system take some megabytes, whoever reads them.
  EXPECT_LT(sent, size_t{32} << 20);
  EXPECT_TRUE(is_closed(stranger.get()));
  ASSERT_EQ(said().size(), 1U);
  EXPECT_THAT(said().front(), HasSubstr("said no hello, and was kept out of this job"));
  EXPECT_THAT(said().front(), HasSubstr("127.0.0.1:"));
}

TEST_F(ReceptionTest, who_says_nothing_has_five_seconds) {
  const UniqueFd stranger = connect();
  const auto begin = Clock::now();
  EXPECT_TRUE(is_closed(stranger.get()));
  EXPECT_GT(Clock::now() - begin, 3s);
}

TEST_F(ReceptionTest, who_says_nothing_until_the_end_is_named_then) {
  const UniqueFd stranger = connect();
  const Entered ranks[] = {join(0), join(1)};
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(said().size(), 0U);
  server_.reset();
  ASSERT_EQ(said().size(), 1U);
  EXPECT_THAT(said().front(), HasSubstr("said no hello in time, and was kept out of this job"));
}

TEST_F(ReceptionTest, another_token_is_turned_away_and_named_once) {
  EXPECT_THROW(join(0, "ffeeddccbbaa99887766554433221100"), TurnedAway);
  EXPECT_THROW(join(1, ""), TurnedAway);
  EXPECT_THROW(join(2), TurnedAway);
  EXPECT_THROW(enter(kLoopback, server_->port(), {"another job", kToken, 2}, 1, 5s), TurnedAway);
  EXPECT_NO_THROW(join(0));
  ASSERT_EQ(said().size(), 1U);
  EXPECT_THAT(said().front(), HasSubstr("did not know the token"));
}

TEST_F(ReceptionTest, without_descriptors_it_waits_and_goes_on_afterwards) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{open_descriptors() + 40, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  std::vector<UniqueFd> taken;
  // One is left for the connection's own end, none for the server's.
  while (true) {
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0) break;
    taken.emplace_back(fd);
  }
  taken.pop_back();
  const UniqueFd waiting = connect();
  EXPECT_THAT([&] { connect_tcp(kLoopback, server_->port(), Clock::now() + 1s, kLoopback); },
              testing::ThrowsMessage<CommError>(HasSubstr("Too many open files")));
  const double busy_s = processor_s();
  std::this_thread::sleep_for(700ms);
  EXPECT_LT(processor_s() - busy_s, 0.3);
  taken.clear();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_NO_THROW(join(0));
}

/// Passes bytes on between a process of the job and its server, and records what the former sends.
class Relay {
 public:
  explicit Relay(int port) : listener_(listen_tcp(kLoopback, 0)), thread_([this, port] { run(port); }) {}
  ~Relay() { stop(); }

  int port() const { return listener_.port; }
  /// Ends the relay.
  std::string recorded() {
    stop();
    return recorded_;
  }

 private:
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  void run(int port) {
    UniqueFd client;
    while (!client && !stop_) {
      client = UniqueFd(::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      std::this_thread::sleep_for(1ms);
    }
    const UniqueFd server = connect_tcp("127.0.0.1", port, Clock::now() + 5s);
    while (!stop_) {
      recorded_ += pass(client.get(), server.get());
      pass(server.get(), client.get());
      std::this_thread::sleep_for(1ms);
    }
  }

  static std::string pass(int from, int to) {
    char block[4096];
    const ssize_t got = ::recv(from, block, sizeof block, MSG_DONTWAIT);
    if (got <= 0) return "";
    ::send(to, block, static_cast<size_t>(got), MSG_NOSIGNAL);
    return {block, static_cast<size_t>(got)};
  }

  Listener listener_;
  std::string recorded_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST(RecordedHelloTest, is_of_no_use_to_another_connection) {
  JobServer::Options options;
  options.job = kJob;
  const JobServer server(std::move(options));
  std::string hello;
  {
    Relay relay(server.port());
    const Entered entered = enter(kLoopback, relay.port(), kJob, 1, 5s);
    hello = relay.recorded();
  }
  ASSERT_THAT(hello, HasSubstr("proof"));
  // Sent as it was, it came from the process itself once; now it answers another question.
  Channel replay(connect_tcp("127.0.0.1", server.port(), Clock::now() + 5s));
  ASSERT_EQ(::send(replay.fd(), hello.data(), hello.size(), MSG_NOSIGNAL), ssize_t(hello.size()));
  std::vector<std::string> answers;
  while (replay.receive()) std::this_thread::sleep_for(1ms);
  while (auto answer = replay.next()) answers.push_back(answer->is());
  EXPECT_THAT(answers, ElementsAre("challenge", "refused"));
}

TEST(FalseListenerTest, is_found_out_by_those_who_come_to_it) {
  const Listener listener = listen_tcp(kLoopback, 0);
  const std::jthread stranger([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      UniqueFd fd(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd) {
        std::this_thread::sleep_for(1ms);
        continue;
      }
      Channel channel(std::move(fd));
      channel.send("challenge", Text{"anything"});
      while (!channel.next() && channel.receive()) std::this_thread::sleep_for(1ms);
      channel.send("welcome", Welcome{.proof = "sure", .host = "h", .pid = 1});
      std::this_thread::sleep_for(100ms);
    }
  });
  try {
    enter(kLoopback, listener.port, kJob, 0, 5s);
    FAIL();
  } catch (const TurnedAway& error) {
    EXPECT_THAT(error.what(), HasSubstr("does not know the token"));
  }
}

}  // namespace
}  // namespace lockstep::launch
