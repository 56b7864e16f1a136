#include "lockstep/base/peer_user.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep {
namespace {

constexpr unsigned kEstablished = 1;

/// Appends an address as in /proc/net/tcp: "0100007F:A3C1 ", in words of the machine's order.
void append_name(char* text, size_t size, const sockaddr_storage& address) {
  const auto& ip4 = reinterpret_cast<const sockaddr_in&>(address);
  const auto& ip6 = reinterpret_cast<const sockaddr_in6&>(address);
  const uint32_t* words = ip6.sin6_addr.s6_addr32;
  const size_t used = std::strlen(text);
  if (address.ss_family == AF_INET) {
    std::snprintf(text + used, size - used, "%08X:%04X ", ip4.sin_addr.s_addr, ntohs(ip4.sin_port));
  } else {
    std::snprintf(text + used, size - used, "%08X%08X%08X%08X:%04X ", words[0], words[1], words[2], words[3],
                  ntohs(ip6.sin6_port));
  }
}

bool is_loopback_address(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  return address.ss_family == AF_INET &&
         ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/// A TCP socket's entry in the system's table; `state` is 0 where there is none.
struct SocketEntry {
  bool told = false;
  unsigned state = 0;
  uid_t user = 0;
};

void set_address(const sockaddr_storage& address, __be16& port, __be32* words) {
  const auto& ip6 = reinterpret_cast<const sockaddr_in6&>(address);
  const bool is_ip6 = address.ss_family == AF_INET6;
  port = is_ip6 ? ip6.sin6_port : reinterpret_cast<const sockaddr_in&>(address).sin_port;
  if (is_ip6) {
    std::memcpy(words, &ip6.sin6_addr, sizeof ip6.sin6_addr);
  } else {
    std::memcpy(words, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, sizeof(in_addr));
  }
}

/// One look-up in the kernel's hash table (sock_diag(7)); not told by kernels without inet_diag.
SocketEntry ask_kernel(const sockaddr_storage& local, const sockaddr_storage& remote) {
  struct {
    nlmsghdr header{};
    inet_diag_req_v2 wanted{};
  } request;
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.wanted.sdiag_family = static_cast<__u8>(local.ss_family);
  request.wanted.sdiag_protocol = IPPROTO_TCP;
  request.wanted.idiag_states = ~0U;
  inet_diag_sockid& id = request.wanted.id;
  set_address(local, id.idiag_sport, id.idiag_src);
  set_address(remote, id.idiag_dport, id.idiag_dst);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;

  const int netlink = ::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (netlink < 0) return {};
  alignas(nlmsghdr) char answer[1024];
  ssize_t length = -1;
  // The kernel has answered when send() returns.
  if (::send(netlink, &request, sizeof request, 0) == sizeof request)
    length = ::recv(netlink, answer, sizeof answer, MSG_DONTWAIT);
  ::close(netlink);
  const auto& header = reinterpret_cast<const nlmsghdr&>(answer);
  const void* const content = answer + NLMSG_HDRLEN;
  if (length >= static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg))) &&
      header.nlmsg_type == SOCK_DIAG_BY_FAMILY) {
    const auto* const entry = static_cast<const inet_diag_msg*>(content);
    return {.told = true, .state = entry->idiag_state, .user = entry->idiag_uid};
  }
  const bool is_missing = length >= static_cast<ssize_t>(NLMSG_LENGTH(sizeof(nlmsgerr))) &&
                          header.nlmsg_type == NLMSG_ERROR &&
                          static_cast<const nlmsgerr*>(content)->error == -ENOENT;
  return {.told = is_missing};
}

/// The same from /proc, where a look at some hundred connections takes seconds.
SocketEntry search_table(const sockaddr_storage& local, const sockaddr_storage& remote) {
  char here[128] = "";
  append_name(here, sizeof here, remote);
  append_name(here, sizeof here, local);
  char there[128] = "";
  append_name(there, sizeof there, local);
  append_name(there, sizeof there, remote);
  const std::unique_ptr<FILE, int (*)(FILE*)> table(
      std::fopen(local.ss_family == AF_INET6 ? "/proc/net/tcp6" : "/proc/net/tcp", "re"), std::fclose);
  char line[512];
  SocketEntry entry;
  while (table && std::fgets(line, sizeof line, table.get()) != nullptr) {
    const char* const found = std::strstr(line, there);
    entry.told = entry.told || found != nullptr || std::strstr(line, here) != nullptr;
    if (found != nullptr &&
        std::sscanf(found + std::strlen(there), "%x %*s %*s %*s %u", &entry.state, &entry.user) == 2)
      break;
  }
  return entry;
}

}  // namespace

PeerUser peer_user(int fd) {
  sockaddr_storage own{};
  sockaddr_storage other{};
  socklen_t own_length = sizeof own;
  socklen_t other_length = sizeof other;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_length) != 0 || !is_loopback_address(own))
    return PeerUser::kOwn;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&other), &other_length) != 0) return PeerUser::kNobody;
  SocketEntry entry = ask_kernel(other, own);
  if (!entry.told) entry = search_table(other, own);
  if (!entry.told) return PeerUser::kOwn;
  if (entry.state != kEstablished) return PeerUser::kNobody;
  return entry.user == ::geteuid() ? PeerUser::kOwn : PeerUser::kOther;
}

}  // namespace lockstep
