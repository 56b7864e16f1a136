#include "lockstep/base/tcp_socket.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/host_name.h"

namespace lockstep {
namespace {

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

/// The addresses of a name or of an address in digits, null with the resolver's `code` if there are none.
Addresses look_up(const std::string& host, int port, int& code) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  return {code == 0 ? found : nullptr, ::freeaddrinfo};
}

/// The same; throws ConfigError if there are none.
Addresses resolve(const std::string& host, int port) {
  int code = 0;
  Addresses found = look_up(host, port, code);
  if (found) return found;
  throw ConfigError(fmt::format("cannot find host '{}': {}", host, ::gai_strerror(code)),
                    "Check MASTER_ADDR, or give an address instead of a name.");
}

/// Makes `fd` listen there. Returns 0, or errno.
int try_listen(UniqueFd& fd, const sockaddr* address, socklen_t length) {
  const int on = 1;
  const int off = 0;
  fd = UniqueFd(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  // Connections of a job that ended a minute ago must not keep the next one from its port.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->sa_family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(fd.get(), address, length) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) return errno;
  return 0;
}

int listen_on_all(UniqueFd& fd, int port) {
  // One IPv6 socket takes IPv4 connections as well. Containers without IPv6 get an IPv4 socket.
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_addr = in6addr_any;
  any6.sin6_port = htons(static_cast<uint16_t>(port));
  const int error = try_listen(fd, reinterpret_cast<const sockaddr*>(&any6), sizeof any6);
  if (error != EAFNOSUPPORT && error != EADDRNOTAVAIL) return error;
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_addr.s_addr = htonl(INADDR_ANY);
  any4.sin_port = htons(static_cast<uint16_t>(port));
  return try_listen(fd, reinterpret_cast<const sockaddr*>(&any4), sizeof any4);
}

/// Listens on the first address of `host` that this host has; who connects tries all of them.
int listen_on(UniqueFd& fd, const std::string& host, int port) {
  int error = EADDRNOTAVAIL;
  const Addresses addresses = resolve(host, port);
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    error = try_listen(fd, address->ai_addr, address->ai_addrlen);
    if (error != EAFNOSUPPORT && error != EADDRNOTAVAIL) break;
  }
  return error;
}

int port_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

/// Whether both ends of a connection are this socket: where nobody listens on a port of this host, the system
/// may choose that very port for the connecting end.
bool met_itself(int fd) {
  sockaddr_storage here{};
  sockaddr_storage there{};
  socklen_t here_length = sizeof here;
  socklen_t there_length = sizeof there;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_length) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_length) == 0 &&
         here_length == there_length && std::memcmp(&here, &there, here_length) == 0;
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

void require_known_host(const std::string& host) {
  resolve(host, 0);
}

bool is_known_host(const std::string& host) {
  int code = 0;
  return look_up(host, 0, code) != nullptr;
}

namespace {

/// Whether bind() or connect() takes an address of the host, for datagrams.
bool takes_address(const std::string& host, int (*take)(int, const sockaddr*, socklen_t), int port) {
  int code = 0;
  const Addresses found = look_up(host, port, code);
  for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next) {
    const UniqueFd fd(::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fd && take(fd.get(), address->ai_addr, address->ai_addrlen) == 0) return true;
  }
  return false;
}

}  // namespace

bool is_own_address(const std::string& host) {
  return takes_address(host, ::bind, 0);
}

bool has_route(const std::string& host) {
  // A port has to be named; none is used.
  return takes_address(host, ::connect, 9);
}

void set_nodelay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) ::close(fd_);
}

Listener listen_tcp(const std::string& host, int port) {
  UniqueFd fd;
  const int error = is_loopback(host) ? listen_on(fd, host, port) : listen_on_all(fd, port);
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

Listener listen_at(const std::string& address) {
  UniqueFd fd;
  if (const int error = listen_on(fd, address, 0); error != 0)
    throw CommError(fmt::format("cannot listen at {}: {}", address, std::strerror(error)));
  const int port = port_of(fd.get());
  return {std::move(fd), port};
}

UniqueFd accept_from(const Listener& listener, std::string& from) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  auto* const any_address = reinterpret_cast<sockaddr*>(&address);
  UniqueFd fd(::accept4(listener.fd.get(), any_address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) return fd;
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "?";
  ::getnameinfo(any_address, length, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  // A listener of IPv6 sees "::ffff:192.0.2.1".
  std::string_view name = host;
  constexpr std::string_view kMapped = "::ffff:";
  if (name.starts_with(kMapped) && name.find('.') != std::string_view::npos)
    name.remove_prefix(kMapped.size());
  from = fmt::format("{}:{}", name, port);
  return fd;
}

UniqueFd connect_tcp(const std::string& host, int port, Clock::time_point deadline, const std::string& from) {
  const Addresses addresses = resolve(host, port);
  const Addresses own = from.empty() ? Addresses(nullptr, ::freeaddrinfo) : resolve(from, 0);
  int error = EADDRNOTAVAIL, left = 0;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) ++left;
  // A name may have several addresses (IPv6 first, usually); the first that answers in its share of the time
  // is taken.
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next, --left) {
    UniqueFd fd(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) {
      error = errno;
      continue;
    }
    const bool bound = own == nullptr || own->ai_family != address->ai_family ||
                       ::bind(fd.get(), own->ai_addr, own->ai_addrlen) == 0;
    const Clock::time_point now = Clock::now();
    error = bound ? connect_until(fd.get(), *address, now + (deadline - now) / left) : errno;
    if (error == 0 && met_itself(fd.get())) error = ECONNREFUSED;
    if (error == 0) {
      set_nodelay(fd.get());
      return fd;
    }
  }
  const std::string what = fmt::format("cannot connect to {}:{}: {}", host, port, std::strerror(error));
  if (error == EMFILE || error == ENFILE) {
    throw CommError(what, "Allow this process more open files (ulimit -n), or start fewer ranks.");
  }
  if (error == ETIMEDOUT) throw TimeoutError(what, "Check that no firewall keeps the hosts apart.");
  throw CommError(what, "Check that the rank which listens there is still running.");
}

int milliseconds_until(Clock::time_point time) {
  const int64_t left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX));
}

bool is_loopback(const std::string& host) {
  constexpr const char* kNames[] = {"localhost", "ip6-localhost", "ip6-loopback"};
  if (std::ranges::find(kNames, host) != std::end(kNames)) return true;
  in_addr ip4{};
  if (::inet_pton(AF_INET, host.c_str(), &ip4) == 1) return ntohl(ip4.s_addr) >> 24 == IN_LOOPBACKNET;
  in6_addr ip6{};
  return ::inet_pton(AF_INET6, host.c_str(), &ip6) == 1 && IN6_IS_ADDR_LOOPBACK(&ip6);
}

}  // namespace lockstep
