#include "lockstep/feed/receiver.h"

#include <cstring>

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.hpp>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/feed/message.h"

namespace lockstep::feed {
namespace {

/// Whether a process listens at the path of a local socket ('@': in the abstract namespace).
bool is_listened_at(const std::string& path) {
  sockaddr_un where{};
  if (path.size() >= sizeof where.sun_path) return false;
  where.sun_family = AF_UNIX;
  std::memcpy(where.sun_path, path.data(), path.size());
  if (path.front() == '@') where.sun_path[0] = '\0';
  // A plain connect: a listener answers at once, a socket file left by a dead process refuses.
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (path.front() == '@' ? 0 : 1));
  const bool answered = ::connect(probe, reinterpret_cast<const sockaddr*>(&where), length) == 0;
  ::close(probe);
  return answered;
}

[[noreturn]] void refuse_in_use(const std::string& address) {
  throw ConfigError(fmt::format("--address {} is in use", address),
                    "Another run takes its batches there: choose another address, or wait for its end.");
}

constexpr std::string_view kLocalScheme = "ipc://";

/// Refuses a path that is taken: before it binds, ZeroMQ removes any file of that name, be it a file of the
/// user's or the socket of a running job.
void check_path(const std::string& address) {
  if (!address.starts_with(kLocalScheme)) return;
  const std::string path = address.substr(kLocalScheme.size());
  if (is_listened_at(path)) refuse_in_use(address);
  struct stat status {};
  if (path.front() != '@' && ::lstat(path.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) {
    throw ConfigError(fmt::format("--address {}: '{}' is there and is no socket", address, path),
                      "Choose the name of a file that is not there.");
  }
}

}  // namespace

struct Receiver::State {
  State(std::string at, double seconds)
      : address(std::move(at)), timeout_s(seconds), stop_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~State() {
    if (stop_fd >= 0) ::close(stop_fd);
  }

  std::string address;
  double timeout_s;
  int stop_fd;
  int64_t received = 0;
  zmq::context_t context;
  zmq::socket_t socket{context, zmq::socket_type::pull};
};

Receiver::Receiver(std::string address, double timeout_s)
    : state_(std::make_unique<State>(std::move(address), timeout_s)) {
  if (state_->stop_fd < 0) throw Error(fmt::format("cannot make an eventfd: {}", std::strerror(errno)));
  check_path(state_->address);
  // One message per producer waits here; batches ahead are counted in the queue behind.
  state_->socket.set(zmq::sockopt::rcvhwm, 1);
  state_->socket.set(zmq::sockopt::linger, 0);
  try {
    state_->socket.bind(state_->address);
  } catch (const zmq::error_t& error) {
    if (error.num() == EADDRINUSE) refuse_in_use(state_->address);
    throw ConfigError(fmt::format("--address {} cannot be bound: {}", state_->address, error.what()),
                      "A rank binds its address: a path that can be written, or a host of this machine.");
  }
}

Receiver::~Receiver() = default;

const std::string& Receiver::address() const {
  return state_->address;
}

int64_t Receiver::received() const {
  return state_->received;
}

std::optional<ReceivedMessage> Receiver::next() {
  const double end_s = now_s() + state_->timeout_s;
  while (true) {
    zmq::pollitem_t items[] = {{state_->socket.handle(), 0, ZMQ_POLLIN, 0},
                               {nullptr, state_->stop_fd, ZMQ_POLLIN, 0}};
    const double left_s = end_s - now_s();
    if (left_s <= 0) {
      throw Error(fmt::format("no batch has come to {} for {:g} s", state_->address, state_->timeout_s),
                  fmt::format("Start a producer ('lockstep feed --address {}'), or give it more time with "
                              "--timeout.",
                              state_->address));
    }
    try {
      zmq::poll(items, 2, std::chrono::milliseconds(static_cast<int64_t>(1000 * left_s) + 1));
    } catch (const zmq::error_t& error) {
      if (error.num() == EINTR) continue;
      throw Error(fmt::format("waiting for messages at {} failed: {}", state_->address, error.what()));
    }
    // Looked at first, so that stop() ends a stream of messages too. Never read: it stays readable.
    if ((items[1].revents & ZMQ_POLLIN) != 0) return std::nullopt;
    if ((items[0].revents & ZMQ_POLLIN) == 0) continue;
    auto message = std::make_shared<zmq::message_t>();
    if (!state_->socket.recv(*message, zmq::recv_flags::dontwait)) continue;
    const std::string_view bytes(message->data<char>(), message->size());
    // A farewell only has to arrive; see kFarewellBytes.
    if (is_farewell(bytes)) continue;
    ++state_->received;
    if (message->more()) {
      throw Error(
          fmt::format("message {} at {} has several parts, expected one", state_->received, state_->address),
          "docs/inputs.md has the layout of a message.");
    }
    return ReceivedMessage{bytes, std::move(message)};
  }
}

void Receiver::stop() {
  const uint64_t one = 1;
  // Fails only after 2^64 - 2 earlier calls.
  [[maybe_unused]] const ssize_t written = ::write(state_->stop_fd, &one, sizeof one);
}

}  // namespace lockstep::feed
