#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace lockstep::launch {

/// A file descriptor that closes itself. Not thread-safe.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd();

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct Listener {
  UniqueFd fd;
  int port = 0;
};

/// Listens on `port` (0: any free one), of the loopback address or of all. Throws ConfigError that names the
/// port.
Listener listen_tcp(bool loopback_only, int port);

/// Throws TimeoutError or CommError that name host and port.
UniqueFd connect_tcp(const std::string& host, int port, std::chrono::duration<double> timeout);

/// The name of this host.
std::string host_name();

/// Whether `host` means this host whatever it is called.
bool is_loopback(const std::string& host);

/// JSON messages, one a line, over a connection that is never waited for. Not thread-safe.
class Channel {
 public:
  Channel() = default;
  explicit Channel(UniqueFd fd);

  int fd() const { return fd_.get(); }

  /// Sends as much as the system takes, keeps the rest; a broken connection is seen by receive().
  void send(const nlohmann::json& message);
  void flush();
  bool has_unsent() const { return !unsent_.empty(); }

  /// Takes in what has arrived. False once the other side has closed or sent something that is no message;
  /// what came before can still be had from next().
  bool receive();
  std::optional<nlohmann::json> next();

 private:
  UniqueFd fd_;
  std::string unsent_;
  std::string received_;
  bool open_ = true;
};

}  // namespace lockstep::launch
