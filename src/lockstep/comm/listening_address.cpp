#include "lockstep/comm/listening_address.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include "lockstep/base/file.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/tcp_socket.h"
#include "lockstep/comm/operation.h"

namespace lockstep::comm {
namespace {

Duration left_until(Deadline deadline) {
  return std::max(Duration(0.001), Duration(deadline - Clock::now()));
}

std::string digits_of(const sockaddr_storage& address, socklen_t length) {
  char text[NI_MAXHOST] = "";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, text, sizeof text, nullptr, 0,
                NI_NUMERICHOST);
  return text;
}

/// The address, in digits, from which the system sends to `to`; empty if there is no way, or only loopback.
std::string source_towards(const addrinfo& to) {
  const UniqueFd fd(::socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  // Connecting a datagram socket sends nothing: it only finds the route.
  if (!fd || ::connect(fd.get(), to.ai_addr, to.ai_addrlen) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0)
    return "";
  std::string source = digits_of(own, length);
  return is_loopback(source) ? "" : source;
}

/// The same for a host by name or address, which may have several addresses.
std::string source_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  // A port has to be named; none is used.
  if (host.empty() || ::getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return "";
  std::string source;
  for (const addrinfo* one = found; one != nullptr && source.empty(); one = one->ai_next)
    source = source_towards(*one);
  ::freeaddrinfo(found);
  return source;
}

/// The address of a network interface; of the first one but loopback for an empty name. Empty if there is
/// none.
std::string address_of_interface(const std::string& name) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  std::string found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* one = all; one != nullptr && found.empty(); one = one->ifa_next) {
      const bool usable = one->ifa_addr != nullptr && one->ifa_addr->sa_family == family &&
                          (one->ifa_flags & IFF_RUNNING) != 0;
      const bool wanted = name.empty() ? (one->ifa_flags & IFF_LOOPBACK) == 0 : name == one->ifa_name;
      if (!usable || !wanted) continue;
      sockaddr_storage address{};
      const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      std::memcpy(&address, one->ifa_addr, length);
      found = digits_of(address, length);
    }
  }
  ::freeifaddrs(all);
  return found;
}

/// The first address of a host by name; the name itself where it has none.
std::string address_of_host(const std::string& name) {
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, nullptr, &found) != 0) return name;
  sockaddr_storage address{};
  std::memcpy(&address, found->ai_addr, found->ai_addrlen);
  std::string digits = digits_of(address, found->ai_addrlen);
  ::freeaddrinfo(found);
  return digits;
}

/// The findings of all ranks together about where they are.
struct Surroundings {
  bool one_host = false;
  /// An address of a host from which rank 0's can be reached; may be empty.
  std::string elsewhere;
};

/// `towards_master`: this rank's address on the way to rank 0's host; empty on that host if it takes its own
/// name for a loopback address, as Debian does.
Surroundings compare_surroundings(Store& store, const std::string& prefix, int rank, int size,
                                  const std::string& towards_master, Deadline deadline) {
  const std::string mine = network_identity();
  if (rank != 0) {
    store.set(fmt::format("{}/host/{}", prefix, rank), mine);
    store.set(fmt::format("{}/address/{}", prefix, rank), towards_master);
    return {store.get(prefix + "/one_host", left_until(deadline)) == "yes",
            store.get(prefix + "/elsewhere", left_until(deadline))};
  }
  Surroundings all{.one_host = true, .elsewhere = {}};
  for (int other = 1; other < size; ++other) {
    const bool here = store.get(fmt::format("{}/host/{}", prefix, other), left_until(deadline)) == mine;
    const std::string address = store.get(fmt::format("{}/address/{}", prefix, other), left_until(deadline));
    all.one_host = all.one_host && here;
    if (!here && all.elsewhere.empty()) all.elsewhere = address;
  }
  store.set(prefix + "/one_host", all.one_host ? "yes" : "no");
  store.set(prefix + "/elsewhere", all.elsewhere);
  return all;
}

}  // namespace

std::string network_identity() {
  std::error_code error;
  const std::filesystem::path space = std::filesystem::read_symlink("/proc/self/ns/net", error);
  return host_name() + " " + first_line("/proc/sys/kernel/random/boot_id") + " " + space.string();
}

std::string listening_address(Store& store, const std::string& prefix, const ConnectOptions& options,
                              Deadline deadline) {
  const std::string towards_master = source_towards(options.master);
  const Surroundings surroundings =
      compare_surroundings(store, prefix, options.rank, options.size, towards_master, deadline);
  if (!options.interface.empty()) {
    const std::string address = address_of_interface(options.interface);
    return address.empty() ? address_of_host(options.interface) : address;
  }
  if (surroundings.one_host) return kLoopback;
  if (!towards_master.empty()) return towards_master;
  const std::string source = source_towards(surroundings.elsewhere);
  return source.empty() ? address_of_interface("") : source;
}

}  // namespace lockstep::comm
