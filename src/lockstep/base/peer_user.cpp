// Goes into mpirun, too (loopback_preload.cpp), so it uses the C library only.

#include "lockstep/base/peer_user.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

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

}  // namespace

PeerUser peer_user(int fd) {
  sockaddr_storage own{};
  sockaddr_storage other{};
  socklen_t own_length = sizeof own;
  socklen_t other_length = sizeof other;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_length) != 0 || !is_loopback_address(own))
    return PeerUser::kOwn;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&other), &other_length) != 0) return PeerUser::kNobody;
  char here[128] = "";
  append_name(here, sizeof here, own);
  append_name(here, sizeof here, other);
  char there[128] = "";
  append_name(there, sizeof there, other);
  append_name(there, sizeof there, own);
  const std::unique_ptr<FILE, int (*)(FILE*)> table(
      std::fopen(own.ss_family == AF_INET6 ? "/proc/net/tcp6" : "/proc/net/tcp", "re"), std::fclose);
  char line[512];
  bool tells = false;
  while (table && std::fgets(line, sizeof line, table.get()) != nullptr) {
    const char* const found = std::strstr(line, there);
    unsigned state = 0;
    uid_t user = 0;
    tells = tells || std::strstr(line, here) != nullptr;
    if (found == nullptr || std::sscanf(found + std::strlen(there), "%x %*s %*s %*s %u", &state, &user) != 2)
      continue;
    if (state != kEstablished) return PeerUser::kNobody;
    return user == ::geteuid() ? PeerUser::kOwn : PeerUser::kOther;
  }
  return tells ? PeerUser::kNobody : PeerUser::kOwn;
}

}  // namespace lockstep
