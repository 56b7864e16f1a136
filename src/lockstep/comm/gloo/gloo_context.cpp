#include "lockstep/comm/gloo/gloo_context.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <initializer_list>
#include <semaphore>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/pair.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/tcp_socket.h"
#include "lockstep/comm/helper_thread.h"
#include "lockstep/comm/invitation.h"
#include "lockstep/comm/listening_address.h"

namespace lockstep::comm {
namespace {

namespace tcp = gloo::transport::tcp;

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

GlooDevice::GlooDevice(Store& store, const std::string& prefix, const ConnectOptions& options,
                       Deadline deadline) {
  address_ = listening_address(store, prefix, options, deadline);

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
      const tcp::attr resolved = tcp::CreateDeviceAttr(tcp::attr(address_.c_str()));
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
  using std::chrono::milliseconds;
  return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
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
