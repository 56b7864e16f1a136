#include "lockstep/launch/tcp_socket.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/operation.h"

namespace lockstep::launch {
namespace {

/// 0 once `fd` listens, else errno.
int try_listen(int fd, const sockaddr* address, socklen_t length) {
  const int on = 1;
  const int off = 0;
  // Connections of a job that ended a minute ago must not keep the next one from its port.
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->sa_family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(fd, address, length) != 0 || ::listen(fd, SOMAXCONN) != 0) return errno;
  return 0;
}

int port_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

/// 0 once connected, else errno.
int connect_until(int fd, const addrinfo& address, Clock::time_point deadline) {
  if (::connect(fd, address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  while (true) {
    // A socket that does not block reports the end of connect() as writable, and its outcome as SO_ERROR.
    const int left_ms = milliseconds_until(deadline);
    if (left_ms == 0) return ETIMEDOUT;
    pollfd wanted{fd, POLLOUT, 0};
    if (::poll(&wanted, 1, std::min(left_ms, 1000)) > 0) break;
  }
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

}  // namespace

void set_nodelay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) ::close(fd_);
}

Listener listen_tcp(bool loopback_only, int port) {
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_addr = in6addr_any;
  any6.sin6_port = htons(static_cast<uint16_t>(port));
  sockaddr_in ip4{};
  ip4.sin_family = AF_INET;
  ip4.sin_addr.s_addr = htonl(loopback_only ? INADDR_LOOPBACK : INADDR_ANY);
  ip4.sin_port = htons(static_cast<uint16_t>(port));

  // One IPv6 socket takes IPv4 connections as well. Containers without IPv6 get an IPv4 socket.
  int error = EAFNOSUPPORT;
  UniqueFd fd;
  if (!loopback_only) {
    fd = UniqueFd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd) error = try_listen(fd.get(), reinterpret_cast<const sockaddr*>(&any6), sizeof any6);
  }
  if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL) {
    fd = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    error = fd ? try_listen(fd.get(), reinterpret_cast<const sockaddr*>(&ip4), sizeof ip4) : errno;
  }
  if (error == EADDRINUSE) {
    throw ConfigError(fmt::format("port {} is in use on {}", port, host_name()),
                      "Another job may be using it: set MASTER_PORT to a free port, the same on all ranks.");
  }
  if (error != 0) {
    throw ConfigError(
        fmt::format("cannot listen on port {} of {}: {}", port, host_name(), std::strerror(error)),
        "Set MASTER_PORT to another port, the same on all ranks.");
  }
  // Port 0 let the system choose.
  const int chosen = port_of(fd.get());
  return {std::move(fd), chosen};
}

UniqueFd connect_tcp(const std::string& host, int port, std::chrono::duration<double> timeout) {
  const auto deadline = comm::deadline_after(timeout);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); code != 0) {
    throw CommError(fmt::format("cannot find host '{}': {}", host, ::gai_strerror(code)),
                    "Check MASTER_ADDR, or give an address instead of a name.");
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, ::freeaddrinfo);
  int error = EADDRNOTAVAIL;
  // A name may have several addresses (IPv6 first, usually); the first that answers is taken.
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    UniqueFd fd(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    error = fd ? connect_until(fd.get(), *address, deadline) : errno;
    if (error == 0) {
      set_nodelay(fd.get());
      return fd;
    }
  }
  const std::string what = fmt::format("cannot connect to {}:{}: {}", host, port, std::strerror(error));
  if (error == ETIMEDOUT) throw TimeoutError(what, "Check that no firewall keeps the hosts apart.");
  throw CommError(what, "Check that the rank which listens there is still running.");
}

int milliseconds_until(Clock::time_point time) {
  const int64_t left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX));
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host.starts_with("127.") || host == "::1";
}

}  // namespace lockstep::launch
