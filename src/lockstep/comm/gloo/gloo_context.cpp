#include "lockstep/comm/gloo/gloo_context.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <semaphore>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/pair.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/tcp_socket.h"
#include "lockstep/comm/gloo/invitation.h"
#include "lockstep/comm/helper_thread.h"

namespace lockstep::comm {
namespace {

namespace tcp = gloo::transport::tcp;

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Equal on two ranks exactly when one reaches the other through 127.0.0.1: same boot, same network
/// namespace.
std::string network_identity() {
  std::error_code error;
  const std::filesystem::path space = std::filesystem::read_symlink("/proc/self/ns/net", error);
  return host_name() + " " + first_line("/proc/sys/kernel/random/boot_id") + " " + space.string();
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

std::string first_outward_interface() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  std::string name;
  for (const ifaddrs* one = all; one != nullptr && name.empty(); one = one->ifa_next) {
    const bool usable = one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET &&
                        (one->ifa_flags & IFF_RUNNING) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (usable) name = one->ifa_name;
  }
  ::freeifaddrs(all);
  return name;
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
    return {store.get(prefix + "/one_host", time_left(deadline)) == "yes",
            store.get(prefix + "/elsewhere", time_left(deadline))};
  }
  Surroundings all{.one_host = true, .elsewhere = {}};
  for (int other = 1; other < size; ++other) {
    const bool here = store.get(fmt::format("{}/host/{}", prefix, other), time_left(deadline)) == mine;
    const std::string address = store.get(fmt::format("{}/address/{}", prefix, other), time_left(deadline));
    all.one_host = all.one_host && here;
    if (!here && all.elsewhere.empty()) all.elsewhere = address;
  }
  store.set(prefix + "/one_host", all.one_host ? "yes" : "no");
  store.set(prefix + "/elsewhere", all.elsewhere);
  return all;
}

tcp::attr choose_address(const std::string& interface, const Surroundings& surroundings,
                         const std::string& towards_master) {
  tcp::attr attr;
  if (!interface.empty()) {
    (::if_nametoindex(interface.c_str()) != 0 ? attr.iface : attr.hostname) = interface;
  } else if (surroundings.one_host) {
    attr.hostname = "127.0.0.1";
  } else if (!towards_master.empty()) {
    attr.hostname = towards_master;
  } else if (const std::string source = source_towards(surroundings.elsewhere); !source.empty()) {
    attr.hostname = source;
  } else {
    attr.iface = first_outward_interface();
  }
  return attr;
}

/// Adds this rank's address, and the flag that changes it, to Gloo's errors in connecting.
template <typename Call>
auto naming_interface(const std::string& address, Call&& call) {
  const std::string advice = fmt::format(
      "This rank listens at {}: if that is the wrong network, name the right one with --interface.", address);
  try {
    return translated(std::forward<Call>(call));
  } catch (const TimeoutError& error) {
    throw TimeoutError(error.what(), advice);
  } catch (const PeerLostError&) {
    throw;
  } catch (const CommError& error) {
    throw CommError(error.what(), advice);
  }
}

pid_t thread_named(const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    const pid_t thread = std::stoi(entry.path().filename().string());
    if (thread != ::gettid() && first_line(entry.path() / "comm") == name) return thread;
  }
  return -1;
}

/// Stops the device's thread between two events for as long as it lives.
class ThreadPause final : public tcp::Handler {
 public:
  explicit ThreadPause(tcp::Device& device) : device_(device), event_(::eventfd(1, EFD_CLOEXEC)) {
    device_.registerDescriptor(event_.get(), EPOLLIN, this);
    paused_.acquire();
  }
  ~ThreadPause() override {
    resumed_.release();
    device_.unregisterDescriptor(event_.get(), this);
  }
  ThreadPause(const ThreadPause&) = delete;
  ThreadPause& operator=(const ThreadPause&) = delete;

  void handleEvents(int /*events*/) override {
    eventfd_t once = 0;
    ::eventfd_read(event_.get(), &once);
    paused_.release();
    resumed_.acquire();
  }

 private:
  tcp::Device& device_;
  const UniqueFd event_;
  std::binary_semaphore paused_{0};
  std::binary_semaphore resumed_{0};
};

/// A pair over a connection that is there already. Gloo's own pair listens from its birth on, so make it
/// while the device's thread pauses.
class ConnectedPair final : public tcp::Pair {
 public:
  ConnectedPair(tcp::Context* context, tcp::Device* device, int rank, UniqueFd connection)
      : Pair(context, device, rank, context->getTimeout()) {
    const std::lock_guard lock(m_);
    // Gloo's listener. Later versions have none in the pair.
    if (fd_ >= 0) ::close(fd_);
    fd_ = connection.release();
    self_ = tcp::Address::fromSockName(fd_);
    peer_ = tcp::Address::fromPeerName(fd_);
    device_->registerDescriptor(fd_, EPOLLIN, this);
    changeState(CONNECTED);
  }
};

class ConnectedTransport final : public tcp::Context {
 public:
  ConnectedTransport(std::shared_ptr<tcp::Device> device, int own_rank, int ranks)
      : Context(std::move(device), own_rank, ranks) {}

  /// `connections` by rank; none for this one.
  void take(std::vector<UniqueFd> connections) {
    const ThreadPause pause(*device_);
    for (size_t peer = 0; peer < connections.size(); ++peer) {
      if (!connections[peer]) continue;
      pairs_[peer] =
          std::make_unique<ConnectedPair>(this, device_.get(), int(peer), std::move(connections[peer]));
    }
  }
};

class ConnectedContext final : public gloo::Context {
 public:
  ConnectedContext(std::shared_ptr<tcp::Device> device, std::shared_ptr<ConnectedTransport> transport)
      : Context(transport->rank, transport->size) {
    device_ = std::move(device);
    transportContext_ = std::move(transport);
  }
};

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (text.find(part) != std::string_view::npos) return true;
  }
  return false;
}

/// Strips the place in Gloo's source that its messages begin with: "[.../pair.cc:598] Connection closed by
/// peer [127.0.0.1]:4242".
std::string without_source_place(std::string text) {
  if (text.empty() || text.front() != '[') return text;
  const size_t end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace

Duration time_left(Deadline deadline, Duration least) {
  return std::max(least, Duration(deadline - Clock::now()));
}

GlooDevice::GlooDevice(Store& store, const std::string& prefix, const ConnectOptions& options,
                       Deadline deadline) {
  const std::string towards_master = source_towards(options.master);
  const Surroundings surroundings =
      compare_surroundings(store, prefix, options.rank, options.size, towards_master, deadline);
  const auto address = choose_address(options.interface, surroundings, towards_master);
  address_ = address.iface.empty() ? address.hostname : address.iface;

  // Gloo starts the device's thread and gives no handle to it. The thread inherits this one's name and signal
  // mask, so a unique name, set for the time of the call, finds it.
  static std::atomic<int> count{0};
  const std::string name = fmt::format("ls-gloo-{}", count++ % 1000);
  char own_name[16] = "";
  pthread_getname_np(pthread_self(), own_name, sizeof own_name);
  const SigpipeBlock no_sigpipe;
  pthread_setname_np(pthread_self(), name.c_str());
  try {
    naming_interface(address_, [&] {
      const tcp::attr resolved = tcp::CreateDeviceAttr(address);
      address_ = digits_of(resolved.ai_addr, static_cast<socklen_t>(resolved.ai_addrlen));
      device_ = std::make_shared<tcp::Device>(resolved);
    });
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

std::chrono::milliseconds milliseconds_left(Deadline deadline) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time_left(deadline));
}

std::shared_ptr<gloo::Context> connect_gloo_context(Store& store, const std::string& prefix, int rank,
                                                    int size, const GlooDevice& device, Deadline deadline) {
  const SigpipeBlock no_sigpipe;
  auto transport = std::make_shared<ConnectedTransport>(device.device(), rank, size);
  // Operations set their own.
  transport->setTimeout(milliseconds_left(deadline));
  naming_interface(device.address(), [&] {
    transport->take(connect_ranks(store, prefix, rank, size, device.address(), deadline));
  });
  return std::make_shared<ConnectedContext>(device.device(), std::move(transport));
}

void break_gloo_connections(gloo::Context& context) noexcept {
  // Gloo has no call for this, but a time-out of any operation closes all connections and wakes all waiters:
  // wait for a message that no rank sends.
  try {
    const SigpipeBlock no_sigpipe;
    char nothing = 0;
    context.createUnboundBuffer(&nothing, 1)->waitRecv(nullptr, std::chrono::milliseconds(1));
  } catch (...) {
  }
}

void rethrow_gloo_exception() {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::system_error& error) {
    throw Error(trouble_of(error));
  } catch (const std::exception& error) {
    const std::string text = "Gloo: " + without_source_place(error.what());
    if (contains_any(
            text, {"closed by peer", "reset by peer", "Broken pipe", "socket closed", "closed connection"})) {
      throw PeerLostError(text, "another rank ended or lost its network; its own output says why");
    }
    if (contains_any(text, {"imed out", "imeout"})) {
      throw TimeoutError(text, "check that every rank is alive and takes the same steps");
    }
    throw CommError(text);
  }
}

}  // namespace lockstep::comm
