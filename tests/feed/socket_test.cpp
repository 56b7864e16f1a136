#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/feed/receiver.h"
#include "lockstep/feed/sender.h"

#include "feed/sockets.h"

namespace lockstep::feed {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

void send_numbers(const std::string& address, int first, int end, int prefetch = 2) {
  Sender sender({.addresses = {address}, .prefetch = prefetch, .timeout_s = 20});
  for (int i = first; i < end; ++i) EXPECT_TRUE(send_number(sender, static_cast<uint8_t>(i)));
  sender.finish();
}

TEST(SocketTest, a_producer_may_be_there_before_the_rank) {
  const Address address;
  std::jthread producer([&] { send_numbers(address.text(), 0, 200); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  Receiver receiver({.address = address.text(), .timeout_s = 20});
  for (int i = 0; i < 200; ++i) ASSERT_EQ(receive_number(receiver), i);
}

TEST(SocketTest, a_producer_does_not_wait_for_a_rank_that_has_gone) {
  const Address address;
  auto receiver = std::make_unique<Receiver>(ReceiverOptions{.address = address.text(), .timeout_s = 20});
  Sender sender({.addresses = {address.text()}, .prefetch = 2, .timeout_s = 1000});
  EXPECT_TRUE(send_number(sender, 7));
  EXPECT_EQ(receive_number(*receiver), 7);
  receiver.reset();
  EXPECT_FALSE(fs::exists(address.path()));
  sender.finish();
}

TEST(SocketTest, a_producer_that_comes_back_is_taken_from_again) {
  const Address address;
  Receiver receiver({.address = address.text(), .timeout_s = 20});
  for (int time = 0; time < 3; ++time) {
    std::jthread producer([&] { send_numbers(address.text(), 10 * time, 10 * time + 10); });
    for (int i = 0; i < 10; ++i) ASSERT_EQ(receive_number(receiver), 10 * time + i);
  }
}

TEST(SocketTest, several_producers_feed_one_rank_and_each_ones_batches_stay_in_order) {
  const Address address;
  Receiver receiver({.address = address.text(), .timeout_s = 20});
  std::jthread low([&] { send_numbers(address.text(), 0, 100); });
  std::jthread high([&] { send_numbers(address.text(), 100, 200); });
  int next_low = 0, next_high = 100;
  for (int i = 0; i < 200; ++i) {
    const int number = receive_number(receiver);
    ASSERT_EQ(number, number < 100 ? next_low : next_high);
    ++(number < 100 ? next_low : next_high);
  }
}

/// Large messages, so that the system's own buffers hold none of them whole.
TEST(SocketTest, one_producer_feeds_several_ranks_and_a_rank_that_leaves_loses_its_own_alone) {
  const Address first, second;
  constexpr size_t kBytes = size_t{1} << 19;
  const int enough = ::eventfd(0, EFD_CLOEXEC);
  Receiver one({.address = first.text(), .timeout_s = 20});
  std::jthread leaving([&] {
    Receiver two({.address = second.text(), .timeout_s = 20});
    int last = -1;
    for (int i = 0; i < 5; ++i) {
      const int number = receive_number(two);
      EXPECT_GT(number, last);
      last = number;
    }
  });
  std::jthread producer([&] {
    Sender sender(
        {.addresses = {first.text(), second.text()}, .prefetch = 1, .timeout_s = 20, .interrupt_fd = enough});
    for (int i = 0;; ++i) {
      *sender.begin(kBytes) = static_cast<uint8_t>(i);
      if (sender.send() != Sent::kSent) return;
    }
  });
  int last = -1;
  for (int i = 0; i < 60; ++i) {
    const int number = receive_number(one);
    EXPECT_GT(number, last);
    last = number;
  }
  leaving.join();
  const uint64_t yes = 1;
  EXPECT_EQ(::write(enough, &yes, sizeof yes), ssize_t{sizeof yes});
  producer.join();
  ::close(enough);
}

/// Megabytes, so that the system's own buffers hold none of them whole.
TEST(SocketTest, who_is_not_taken_from_waits_and_loses_nothing) {
  const Address address;
  Receiver receiver({.address = address.text(), .timeout_s = 20});
  constexpr int kMessages = 24;
  std::atomic<int> sent = 0;
  std::jthread producer([&] {
    Sender sender({.addresses = {address.text()}, .prefetch = 2, .timeout_s = 20});
    for (int i = 0; i < kMessages; ++i) {
      *sender.begin(4 << 20) = static_cast<uint8_t>(i);
      EXPECT_EQ(sender.send(), Sent::kSent);
      ++sent;
    }
    EXPECT_GT(sender.waited_s(), 0);
    sender.finish();
  });
  EXPECT_EQ(receive_number(receiver), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LT(sent, kMessages / 2);
  for (int i = 1; i < kMessages; ++i) ASSERT_EQ(receive_number(receiver), i);
}

TEST(SocketTest, an_address_in_use_is_refused_and_stays_in_use) {
  for (const std::string& address :
       {Address().text(), free_tcp_address(), "ipc://@lockstep_feed_" + std::to_string(::getpid())}) {
    SCOPED_TRACE(address);
    Receiver receiver({.address = address, .timeout_s = 20});
    EXPECT_THAT([&] { Receiver({.address = address, .timeout_s = 20}); },
                ThrowsMessage<ConfigError>(HasSubstr("is in use")));
    std::jthread producer([&] { send_numbers(address, 0, 1); });
    EXPECT_EQ(receive_number(receiver), 0);
  }
}

TEST(SocketTest, the_socket_of_a_run_that_was_killed_is_taken_over_but_no_file_is_removed) {
  const Address address;
  std::ofstream(address.path()) << "precious";
  EXPECT_THAT([&] { Receiver({.address = address.text(), .timeout_s = 20}); },
              ThrowsMessage<ConfigError>(HasSubstr("is no socket")));
  EXPECT_EQ(fs::file_size(address.path()), 8U);
  fs::remove(address.path());

  const int left = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::strncpy(where.sun_path, address.path().c_str(), sizeof where.sun_path - 1);
  ASSERT_EQ(::bind(left, reinterpret_cast<const sockaddr*>(&where), sizeof where), 0);
  ::close(left);
  Receiver receiver({.address = address.text(), .timeout_s = 20});
  EXPECT_THAT([&] { Receiver({.address = "ipc:///no/such/folder/x", .timeout_s = 20}); },
              ThrowsMessage<ConfigError>(HasSubstr("cannot be bound")));
}

TEST(SocketTest, nobody_waits_beyond_the_time_out) {
  const Address address;
  {
    Receiver receiver({.address = address.text(), .timeout_s = 0.05});
    EXPECT_THAT([&] { receiver.next(); },
                ThrowsMessage<Error>(HasSubstr("no batch has come to " + address.text() + " for 0.05 s")));
  }
  Sender sender({.addresses = {address.text()}, .timeout_s = 0.05});
  EXPECT_THAT([&] { send_number(sender, 1); },
              ThrowsMessage<Error>(HasSubstr("nobody has taken a batch at " + address.text())));
}

TEST(SocketTest, ranks_that_took_batches_and_left_are_no_error_but_one_that_stays_and_takes_none_is) {
  const Address address;
  Sender sender({.addresses = {address.text()}, .prefetch = 1, .timeout_s = 0.3});
  const auto fill = [&](Receiver& receiver) {
    std::jthread taking([&] { EXPECT_EQ(receive_number(receiver), 7); });
    EXPECT_TRUE(send_number(sender, 7));
  };
  {
    Receiver receiver({.address = address.text(), .timeout_s = 20});
    fill(receiver);
    constexpr size_t kMoreThanBuffers = 8 << 20;
    EXPECT_THAT(
        [&] {
          while (true) {
            sender.begin(kMoreThanBuffers);
            sender.send();
          }
        },
        ThrowsMessage<Error>(HasSubstr("nobody has taken a batch")));
  }
  Sent last = Sent::kSent;
  // A message or two may still go into the connection that is about to end.
  for (int i = 0; i < 100 && last == Sent::kSent; ++i) {
    sender.begin(1);
    last = sender.send();
  }
  EXPECT_EQ(last, Sent::kRanksLeft);
}

TEST(SocketTest, stopping_and_interrupting_end_a_wait) {
  const Address address;
  Receiver receiver({.address = address.text(), .timeout_s = 20});
  std::jthread waiting([&] { EXPECT_FALSE(receiver.next()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  receiver.stop();

  const Address nobody;
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  Sender sender({.addresses = {nobody.text()}, .timeout_s = 20, .interrupt_fd = pipe_ends[0]});
  ASSERT_EQ(::write(pipe_ends[1], "x", 1), 1);
  EXPECT_FALSE(send_number(sender, 1));
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

}  // namespace
}  // namespace lockstep::feed
