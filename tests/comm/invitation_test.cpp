#include "lockstep/comm/invitation.h"

#include <chrono>
#include <future>
#include <sstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// A rank that waits for another one, and what it said of strangers.
class InvitationTest : public ::testing::Test {
 protected:
  InvitationTest() { std::istringstream(invitation_.text()) >> address_ >> port_ >> secret_; }

  static Clock::time_point in(std::chrono::milliseconds time) { return Clock::now() + time; }

  UniqueFd stranger(const std::string& says = "") const {
    UniqueFd fd = connect_tcp(address_, port_, in(5s));
    ::send(fd.get(), says.data(), says.size(), MSG_NOSIGNAL);
    return fd;
  }

  /// The other rank comes; both ends of the connection are theirs.
  void expect_met() {
    auto host = std::async(std::launch::async, [&] {
      return invitation_.wait(in(20s), [&](const std::string& one) { strangers_.push_back(one); });
    });
    const UniqueFd guest = Invitation::follow(invitation_.text(), "127.0.0.1", in(20s));
    const UniqueFd proven = host.get();
    ASSERT_EQ(::send(guest.get(), "g", 1, 0), 1);
    ASSERT_EQ(::send(proven.get(), "h", 1, 0), 1);
    char at_host = 0;
    char at_guest = 0;
    std::this_thread::sleep_for(10ms);
    EXPECT_EQ(::recv(proven.get(), &at_host, 1, 0), 1);
    EXPECT_EQ(::recv(guest.get(), &at_guest, 1, 0), 1);
    EXPECT_EQ(at_host, 'g');
    EXPECT_EQ(at_guest, 'h');
  }

  Invitation invitation_{"127.0.0.1"};
  std::string address_;
  int port_ = 0;
  std::string secret_;
  std::vector<std::string> strangers_;
};

TEST_F(InvitationTest, the_invited_rank_is_let_in) {
  expect_met();
  EXPECT_TRUE(strangers_.empty());
}

TEST_F(InvitationTest, a_silent_stranger_that_comes_first_is_not_taken_for_a_rank) {
  const UniqueFd first = stranger();
  expect_met();
  ASSERT_EQ(strangers_.size(), 1U);
  EXPECT_THAT(strangers_.front(), HasSubstr("127.0.0.1:"));
}

TEST_F(InvitationTest, a_stranger_without_the_secret_is_sent_away) {
  const UniqueFd wrong = stranger(std::string(secret_.size() * 2, '0'));
  const UniqueFd replayed = stranger(answer_to("host", secret_));
  const UniqueFd started = stranger("012345");
  expect_met();
  EXPECT_EQ(strangers_.size(), 3U);
}

TEST_F(InvitationTest, a_crowd_of_strangers_does_not_keep_the_rank_out) {
  std::vector<UniqueFd> crowd;
  for (int i = 0; i < 600; ++i) crowd.push_back(stranger(i % 2 == 0 ? "" : "GET / HTTP/1.1"));
  expect_met();
  EXPECT_EQ(strangers_.size(), crowd.size());
}

TEST_F(InvitationTest, one_that_takes_the_place_of_the_listener_is_found_out) {
  const Listener other = listen_at("127.0.0.1");
  auto taken_in = std::async(std::launch::async, [&] {
    return Invitation::follow("127.0.0.1 " + std::to_string(other.port) + " " + secret_, "127.0.0.1",
                              in(20s));
  });
  std::string from;
  UniqueFd guest;
  while (!guest) guest = accept_from(other, from);
  // All that it can know: what the guest says, and what it makes up.
  std::string proof(64, ' ');
  while (::recv(guest.get(), proof.data(), proof.size(), MSG_PEEK) < static_cast<ssize_t>(proof.size())) {
  }
  ::send(guest.get(), proof.data(), proof.size(), 0);
  EXPECT_THROW(taken_in.get(), CommError);
}

TEST_F(InvitationTest, waiting_ends_in_time) {
  EXPECT_THROW(invitation_.wait(in(50ms), [](const std::string&) {}), TimeoutError);
}

}  // namespace
}  // namespace lockstep::comm
