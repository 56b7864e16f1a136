#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/feed/receiver.h"
#include "lockstep/feed/sender.h"

namespace lockstep::feed {

/// An address of its own; its file is removed at the end.
class Address {
 public:
  Address()
      : path_(std::filesystem::temp_directory_path() /
              ("lockstep_feed_" + std::to_string(::getpid()) + "_" + std::to_string(count_++))) {}
  ~Address() { std::filesystem::remove(path_); }

  std::string text() const { return "ipc://" + path_.string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  static inline int count_ = 0;
  std::filesystem::path path_;
};

/// A port that is free now; the system assigns it to nobody else for a while.
inline std::string free_tcp_address() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof where;
  EXPECT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&where), size), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&where), &size), 0);
  ::close(fd);
  return "tcp://127.0.0.1:" + std::to_string(ntohs(where.sin_port));
}

inline bool send_number(Sender& sender, uint8_t number) {
  *sender.begin(1) = number;
  return sender.send() == Sent::kSent;
}

inline int receive_number(Receiver& receiver) {
  const auto message = receiver.next();
  return message ? static_cast<uint8_t>(message->bytes.front()) : -1;
}

}  // namespace lockstep::feed
