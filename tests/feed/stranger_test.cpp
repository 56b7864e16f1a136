#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zmq.hpp>

#include "lockstep/base/error.h"
#include "lockstep/feed/curve.h"
#include "lockstep/feed/receiver.h"
#include "lockstep/feed/sender.h"

#include "feed/sockets.h"

namespace lockstep::feed {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Messages that begin with 'g' are wanted.
ReceiverOptions wanting_g(const std::string& address, const std::string& token = "") {
  return {.address = address,
          .timeout_s = 20,
          .message_bytes = 1,
          .token = token,
          .check = [](std::string_view message, const std::string& name) {
            if (message != "g") throw Error(name + " is not wanted");
          }};
}

void send_letters(const std::string& address, const std::string& letters, const std::string& token = "") {
  Sender sender({.addresses = {address}, .prefetch = 2, .timeout_s = 5, .token = token});
  for (const char letter : letters) send_number(sender, static_cast<uint8_t>(letter));
  sender.finish();
}

TEST(StrangerTest, at_an_open_address_unwanted_messages_are_dropped_and_counted) {
  const std::string address = free_tcp_address();
  Receiver receiver(wanting_g(address));
  std::jthread producer([&] { send_letters(address, "xgyzg"); });
  for (int i = 0; i < 2; ++i) EXPECT_EQ(receive_number(receiver), 'g');
  const Refused refused = receiver.refused();
  EXPECT_EQ(refused.count, 3);
  EXPECT_EQ(refused.first, "message 1 at " + address + " is not wanted");
}

TEST(StrangerTest, messages_of_several_parts_are_dropped_whole) {
  const std::string address = free_tcp_address();
  Receiver receiver(wanting_g(address));
  zmq::context_t context;
  zmq::socket_t stranger(context, zmq::socket_type::push);
  stranger.connect(address);
  for (int i = 0; i < 3; ++i) stranger.send(zmq::str_buffer("g"), zmq::send_flags::sndmore);
  stranger.send(zmq::str_buffer("g"), zmq::send_flags::none);
  stranger.send(zmq::str_buffer("g"), zmq::send_flags::none);
  EXPECT_EQ(receive_number(receiver), 'g');
  EXPECT_EQ(receiver.refused().count, 1);
  EXPECT_THAT(receiver.refused().first, HasSubstr("has several parts"));
}

TEST(StrangerTest, the_end_of_the_wait_tells_what_was_dropped) {
  const std::string address = free_tcp_address();
  ReceiverOptions options = wanting_g(address);
  options.timeout_s = 1;
  Receiver receiver(options);
  std::jthread producer([&] { send_letters(address, "x"); });
  EXPECT_THAT(
      [&] { receiver.next(); },
      ThrowsMessage<Error>(HasSubstr("for 1 s, and 1 was refused, the first: message 1 at " + address)));
}

TEST(StrangerTest, only_this_user_writes_to_a_path_so_that_an_unwanted_message_is_an_error) {
  const Address address;
  Receiver receiver(wanting_g(address.text()));
  EXPECT_EQ(fs::status(address.path()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  std::jthread producer([&] { send_letters(address.text(), "x"); });
  EXPECT_THAT([&] { receiver.next(); }, ThrowsMessage<Error>(HasSubstr("is not wanted")));
}

TEST(StrangerTest, a_message_that_is_much_too_long_is_not_taken_in) {
  const std::string address = free_tcp_address();
  Receiver receiver(wanting_g(address));
  zmq::context_t context;
  zmq::socket_t stranger(context, zmq::socket_type::push);
  stranger.set(zmq::sockopt::linger, 0);
  stranger.connect(address);
  stranger.send(zmq::message_t(size_t{8} << 20), zmq::send_flags::none);
  std::jthread producer([&] { send_letters(address, "g"); });
  EXPECT_EQ(receive_number(receiver), 'g');
  EXPECT_EQ(receiver.refused().count, 0);
}

TEST(StrangerTest, with_a_token_only_those_who_know_it_are_heard) {
  const std::string address = free_tcp_address();
  const std::string token = "00112233445566778899aabbccddeeff";
  Receiver receiver(wanting_g(address, token));
  zmq::context_t context;
  const auto connect = [&](const std::string& other_token) {
    zmq::socket_t stranger(context, zmq::socket_type::push);
    stranger.set(zmq::sockopt::linger, 0);
    if (!other_token.empty()) {
      const CurveKeys own = new_keys();
      stranger.set(zmq::sockopt::curve_serverkey, keys_of_ranks(other_token).public_key);
      stranger.set(zmq::sockopt::curve_publickey, own.public_key);
      stranger.set(zmq::sockopt::curve_secretkey, own.secret_key);
    }
    stranger.connect(address);
    stranger.send(zmq::str_buffer("g"), zmq::send_flags::dontwait);
    return stranger;
  };
  const zmq::socket_t without = connect("");
  const zmq::socket_t wrong = connect("ffeeddccbbaa99887766554433221100");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  std::jthread producer([&] { send_letters(address, "g", token); });
  EXPECT_EQ(receive_number(receiver), 'g');
  EXPECT_GE(receiver.refused().count, 1);
  EXPECT_THAT(receiver.refused().first, HasSubstr("without the token"));
}

}  // namespace
}  // namespace lockstep::feed
