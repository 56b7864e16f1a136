#include "lockstep/comm/gloo/gloo_device.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gloo/transport/tcp/device.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <unistd.h>

#include "lockstep/comm/helper_thread.h"

namespace lockstep::comm {
namespace {

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

/// Equal on two ranks exactly when one reaches the other through 127.0.0.1: same boot, same network
/// namespace.
std::string network_identity() {
  std::error_code error;
  const std::filesystem::path space = std::filesystem::read_symlink("/proc/self/ns/net", error);
  return host_name() + " " + first_line("/proc/sys/kernel/random/boot_id") + " " + space.string();
}

bool all_on_one_host(Store& store, const std::string& prefix, int rank, int size, Deadline deadline) {
  const std::string mine = network_identity();
  if (rank != 0) {
    store.set(fmt::format("{}/host/{}", prefix, rank), mine);
    return store.get(prefix + "/one_host", time_left(deadline)) == "yes";
  }
  bool same = true;
  for (int other = 1; other < size; ++other) {
    same = store.get(fmt::format("{}/host/{}", prefix, other), time_left(deadline)) == mine && same;
  }
  store.set(prefix + "/one_host", same ? "yes" : "no");
  return same;
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
  }
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

/// Whether other hosts can use this host's name. Debian resolves it to 127.0.1.1, which they cannot reach.
bool host_name_is_reachable() {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host_name().c_str(), nullptr, &hints, &found) != 0) return false;
  const bool reachable = !is_loopback(found->ai_addr);
  ::freeaddrinfo(found);
  return reachable;
}

std::string first_outward_interface() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  std::string name;
  for (const ifaddrs* one = all; one != nullptr && name.empty(); one = one->ifa_next) {
    const bool usable = one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET &&
                        (one->ifa_flags & IFF_RUNNING) != 0 && !is_loopback(one->ifa_addr);
    if (usable) name = one->ifa_name;
  }
  ::freeifaddrs(all);
  return name;
}

gloo::transport::tcp::attr choose_address(const std::string& interface, bool one_host) {
  gloo::transport::tcp::attr attr;
  if (!interface.empty()) {
    (::if_nametoindex(interface.c_str()) != 0 ? attr.iface : attr.hostname) = interface;
  } else if (one_host) {
    attr.hostname = "127.0.0.1";
  } else if (host_name_is_reachable()) {
    attr.hostname = host_name();
  } else {
    attr.iface = first_outward_interface();
  }
  return attr;
}

pid_t thread_named(const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    const pid_t thread = std::stoi(entry.path().filename().string());
    if (thread != ::gettid() && first_line(entry.path() / "comm") == name) return thread;
  }
  return -1;
}

}  // namespace

Duration time_left(Deadline deadline, Duration least) {
  return std::max(least, Duration(deadline - Clock::now()));
}

GlooDevice::GlooDevice(Store& store, const std::string& prefix, int rank, int size,
                       const std::string& interface, Deadline deadline) {
  const bool one_host = all_on_one_host(store, prefix, rank, size, deadline);
  const auto address = choose_address(interface, one_host);

  // Gloo starts the device's thread and gives no handle to it. The thread inherits this one's name and signal
  // mask, so a unique name, set for the time of the call, finds it.
  static std::atomic<int> count{0};
  const std::string name = fmt::format("ls-gloo-{}", count++ % 1000);
  char own_name[16] = "";
  pthread_getname_np(pthread_self(), own_name, sizeof own_name);
  const SigpipeBlock no_sigpipe;
  pthread_setname_np(pthread_self(), name.c_str());
  try {
    device_ = gloo::transport::tcp::CreateDevice(address);
  } catch (...) {
    pthread_setname_np(pthread_self(), own_name);
    throw;
  }
  pthread_setname_np(pthread_self(), own_name);
  loop_thread_ = thread_named(name);
}

double GlooDevice::cpu_s() const {
  if (loop_thread_ < 0) return 0;
  // The kernel's own numbering of thread clocks (CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED): the C library computes
  // it from a pthread handle only.
  return processor_clock_s(clockid_t((~static_cast<unsigned>(loop_thread_) << 3) | 6U));
}

}  // namespace lockstep::comm
