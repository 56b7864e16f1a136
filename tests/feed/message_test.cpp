#include "lockstep/feed/message.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::feed {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const WantedBatch kWanted{.shape = {.batch = 2, .channels = 3, .image_size = 4}, .classes = 10};

/// Labels 8 and 9, pixels 0, 1, 2, ...
std::string good_message() {
  std::string message(message_bytes(kWanted.shape), '\0');
  const MessageParts parts = begin_message(kWanted.shape, reinterpret_cast<uint8_t*>(message.data()));
  parts.labels[0] = 8;
  parts.labels[1] = 9;
  for (int64_t i = 0; i < kWanted.shape.bytes(); ++i) parts.pixels[i] = static_cast<uint8_t>(i);
  return message;
}

std::string with_number(size_t at, uint32_t value) {
  std::string message = good_message();
  std::memcpy(message.data() + at, &value, sizeof value);
  return message;
}

auto parsing(const std::string& message) {
  return [message] { parse_message(message, kWanted, "message 3 at ipc:///tmp/x"); };
}

TEST(MessageTest, is_read_as_it_was_written) {
  const std::string message = good_message();
  EXPECT_EQ(message.size(), 32U + 2 * 8 + 2 * 4 * 4 * 3);
  const BatchView view = parse_message(message, kWanted, "it");
  int64_t labels[2];
  std::memcpy(labels, view.labels, sizeof labels);
  EXPECT_EQ(labels[0], 8);
  EXPECT_EQ(labels[1], 9);
  for (int i = 0; i < 96; ++i) ASSERT_EQ(view.pixels[i], i);
}

/// So that a producer in another language can be written from the document alone.
TEST(MessageTest, has_the_layout_that_the_document_says) {
  EXPECT_EQ(good_message().substr(0, 48), std::string("LOCKSTEP"
                                                      "\1\0\0\0"
                                                      "\1\0\0\0"
                                                      "\2\0\0\0"
                                                      "\4\0\0\0"
                                                      "\4\0\0\0"
                                                      "\3\0\0\0"
                                                      "\10\0\0\0\0\0\0\0"
                                                      "\11\0\0\0\0\0\0\0",
                                                      48));
}

TEST(MessageTest, a_farewell_is_no_batch_and_no_batch_a_farewell) {
  EXPECT_TRUE(is_farewell(farewell()));
  EXPECT_FALSE(is_farewell(good_message()));
  EXPECT_FALSE(is_farewell(with_number(12, 0)));
  EXPECT_THAT(parsing(farewell()), ThrowsMessage<Error>(HasSubstr("has content of type 0")));
}

TEST(MessageTest, that_is_anything_else_is_refused_with_what_was_expected) {
  const std::string good = good_message();
  const auto refuses = [](const std::string& message, const std::string& words) {
    EXPECT_THAT(parsing(message),
                ThrowsMessage<Error>(AllOf(HasSubstr("message 3 at ipc:///tmp/x"), HasSubstr(words))));
  };
  refuses("", "does not begin with \"LOCKSTEP\"");
  refuses("lockstep" + good.substr(8), "does not begin with");
  refuses(good.substr(0, 31), "ends after 31 bytes, within its header of 32");
  refuses(with_number(8, 2), "is of version 2 of the layout, expected 1");
  refuses(with_number(12, 5), "has content of type 5, expected 1 (uint8 images)");
  refuses(with_number(16, 3), "has 3 images of 4 x 4 x 3, expected 2 images of 4 x 4 x 3");
  refuses(with_number(20, 5), "has 2 images of 5 x 4 x 3, expected");
  refuses(with_number(24, 0xffffffff), "has 2 images of 4 x 4294967295 x 3, expected");
  refuses(with_number(28, 1), "has 2 images of 4 x 4 x 1, expected");
  refuses(good.substr(0, 143), "has 143 bytes, expected 144 (header 32, labels 16, pixels 96)");
  refuses(good + '\0', "has 145 bytes, expected 144");
  refuses(with_number(32, 10), "has label 10 for image 0, expected 0 to 9");
  refuses(with_number(44, 0x80000000), "for image 1, expected 0 to 9");
}

const WantedTensors kTensors{.batch = 2, .bytes_per_sample = {3, 8}};

std::string good_tensors() {
  std::string message(message_bytes(kTensors), '\0');
  char* const values = begin_message(kTensors, reinterpret_cast<uint8_t*>(message.data()));
  for (int i = 0; i < 22; ++i) values[i] = static_cast<char>(i);
  return message;
}

TEST(TensorMessageTest, is_read_as_it_was_written) {
  const std::string message = good_tensors();
  EXPECT_EQ(message.substr(0, 32), std::string("LOCKSTEP"
                                               "\1\0\0\0"
                                               "\2\0\0\0"
                                               "\2\0\0\0"
                                               "\2\0\0\0"
                                               "\0\0\0\0"
                                               "\0\0\0\0",
                                               32));
  check_tensors(message, kTensors, "it");
  EXPECT_EQ(tensors_of(message).size(), 22U);
  EXPECT_EQ(tensors_of(message)[21], 21);
}

TEST(TensorMessageTest, that_does_not_fit_is_refused_with_what_was_expected) {
  const auto refuses = [](const std::string& message, const WantedTensors& wanted, const std::string& words) {
    EXPECT_THAT([&] { check_tensors(message, wanted, "message 3"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("message 3"), HasSubstr(words))));
  };
  refuses("", kTensors, "does not begin with");
  refuses(good_message(), kTensors, "has content of type 1, expected 2 (tensors)");
  refuses(good_tensors(), {.batch = 3, .bytes_per_sample = {3, 8}},
          "has 2 samples of 2 tensors, expected 3 of 2");
  refuses(good_tensors(), {.batch = 2, .bytes_per_sample = {11}},
          "has 2 samples of 2 tensors, expected 2 of 1");
  refuses(good_tensors(), {.batch = 2, .bytes_per_sample = {4, 8}}, "has 54 bytes, expected 56");
  refuses(good_tensors() + '\0', kTensors, "has 55 bytes, expected 54");
  EXPECT_THAT(parsing(good_tensors()), ThrowsMessage<Error>(HasSubstr("has content of type 2")));
}

TEST(AddressTest, every_rank_has_its_own) {
  EXPECT_EQ(address_of_rank("ipc:///tmp/x", 0), "ipc:///tmp/x");
  EXPECT_EQ(address_of_rank("ipc:///tmp/x", 2), "ipc:///tmp/x.2");
  EXPECT_EQ(address_of_rank("tcp://127.0.0.1:5555", 0), "tcp://127.0.0.1:5555");
  EXPECT_EQ(address_of_rank("tcp://127.0.0.1:5555", 3), "tcp://127.0.0.1:5558");
  EXPECT_EQ(address_of_rank("tcp://[::1]:65535", 0), "tcp://[::1]:65535");
}

TEST(AddressTest, that_is_none_is_refused) {
  for (const char* address : {"", "/tmp/x", "ipc://", "inproc://x", "tcp://", "tcp://:5555", "tcp://host",
                              "tcp://host:", "tcp://host:0", "tcp://host:65536", "tcp://host:12x"}) {
    EXPECT_THAT([&] { address_of_rank(address, 0); },
                ThrowsMessage<ConfigError>(HasSubstr(std::string("--address ") + address)));
  }
  EXPECT_THAT([&] { address_of_rank("tcp://host:65535", 1); },
              ThrowsMessage<ConfigError>(HasSubstr("no port 65536 for rank 1")));
}

}  // namespace
}  // namespace lockstep::feed
