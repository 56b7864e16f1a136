#pragma once

#include <string>
#include <utility>

#include "lockstep/base/clock.h"

namespace lockstep {

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

/// Listens on `port` (0: any free one) of the address that `host` has, if that is a loopback address, else on
/// all addresses: the name of a host may resolve to another address on other hosts. Throws ConfigError that
/// names the port.
Listener listen_tcp(const std::string& host, int port);

/// Listens on any free port of this very address. Throws CommError.
Listener listen_at(const std::string& address);

/// The next connection, which does not block, and the address that it comes `from`: "127.0.0.1:4242". Empty
/// if nobody waits, or for want of a descriptor (errno).
UniqueFd accept_from(const Listener& listener, std::string& from);

/// Connects before `deadline`, from the address `from` of this host if it is given. Throws TimeoutError or
/// CommError that name host and port, and as require_known_host().
UniqueFd connect_tcp(const std::string& host, int port, Clock::time_point deadline,
                     const std::string& from = "");

/// Throws ConfigError for a name that this host cannot resolve.
void require_known_host(const std::string& host);
bool is_known_host(const std::string& host);

/// Whether `host`, a name or an address, is one of this host's; false for one that it cannot resolve.
bool is_own_address(const std::string& host);

/// Whether the system knows a way to an address; nothing is sent.
bool has_route(const std::string& host);

/// Sends small messages at once instead of waiting for more to send.
void set_nodelay(int fd);

/// Milliseconds until then, for poll(); 0 once it has come.
int milliseconds_until(Clock::time_point time);

constexpr const char* kLoopback = "127.0.0.1";

/// Whether `host` is a name or an address of the loopback interface, and so means this host on any host.
bool is_loopback(const std::string& host);

}  // namespace lockstep
