#include "lockstep/feed/receiver.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.hpp>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/tcp_socket.h"
#include "lockstep/feed/curve.h"
#include "lockstep/feed/message.h"

namespace lockstep::feed {
namespace {

/// Time for a producer to complete its handshake.
constexpr int kHandshake_ms = 5000;
/// Longest interval between checks for failed connections.
constexpr double kCheckFailures_s = 1;

/// Whether a process listens at the path of a local socket ('@': in the abstract namespace).
bool is_listened_at(const std::string& path) {
  sockaddr_un where{};
  if (path.size() >= sizeof where.sun_path) return false;
  where.sun_family = AF_UNIX;
  std::memcpy(where.sun_path, path.data(), path.size());
  if (path.front() == '@') where.sun_path[0] = '\0';
  // A plain connect: a listener answers at once, a socket file left by a dead process refuses.
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!probe) return false;
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (path.front() == '@' ? 0 : 1));
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&where), length) == 0;
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

/// The longest message that is taken in.
int64_t longest_message(const ReceiverOptions& options) {
  constexpr size_t kEnoughLocally = size_t{64} << 20;
  // CURVE puts its own header and code around a message.
  constexpr size_t kAround = 256;
  const size_t due = std::max(options.message_bytes, kFarewellBytes);
  return static_cast<int64_t>(is_open_to_others(options.address) ? due + kAround
                                                                 : std::max(4 * due, kEnoughLocally));
}

}  // namespace

/// Counts connections of producers without the token.
class Receiver::FailedHandshakes final : public zmq::monitor_t {
 public:
  explicit FailedHandshakes(zmq::socket_t& socket) {
    init(socket, "inproc://handshakes",
         ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
             ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
  }

  /// Failures since the last call.
  int64_t take() {
    while (check_event()) continue;
    return std::exchange(count_, 0);
  }

 private:
  void on_event_handshake_failed_no_detail(const zmq_event_t& /*event*/, const char* /*address*/) override {
    ++count_;
  }
  void on_event_handshake_failed_protocol(const zmq_event_t& /*event*/, const char* /*address*/) override {
    ++count_;
  }
  void on_event_handshake_failed_auth(const zmq_event_t& /*event*/, const char* /*address*/) override {
    ++count_;
  }

  int64_t count_ = 0;
};

struct Receiver::State {
  explicit State(ReceiverOptions given)
      : options(std::move(given)),
        stop_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        guarded(is_open_to_others(options.address) && !options.token.empty()) {}

  /// Throws the error, or only counts it where any process could have sent the message.
  void refuse(const Error& error) {
    if (guarded || !is_open_to_others(options.address)) throw error;
    count_refused(1, error.what());
  }

  void count_refused(int64_t more, const std::string& what) {
    if (more == 0) return;
    const std::lock_guard lock(mutex);
    if (refused.count == 0) refused.first = what;
    refused.count += more;
  }

  /// Discards the remaining parts of a message.
  void skip_parts() {
    zmq::message_t part;
    do {
      if (!socket.recv(part, zmq::recv_flags::dontwait)) return;
    } while (part.more());
  }

  ReceiverOptions options;
  UniqueFd stop_fd;
  /// Whether producers are asked for the token.
  bool guarded;
  int64_t received = 0;
  mutable std::mutex mutex;
  Refused refused;
  zmq::context_t context;
  zmq::socket_t socket{context, zmq::socket_type::pull};
  FailedHandshakes failed_handshakes{socket};
};

Receiver::Receiver(ReceiverOptions options) : state_(std::make_unique<State>(std::move(options))) {
  const std::string& address = state_->options.address;
  zmq::socket_t& socket = state_->socket;
  if (!state_->stop_fd) throw Error(fmt::format("cannot make an eventfd: {}", std::strerror(errno)));
  check_path(address);
  // One message per producer: the queue behind holds the batches ahead.
  socket.set(zmq::sockopt::rcvhwm, 1);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::maxmsgsize, longest_message(state_->options));
  socket.set(zmq::sockopt::handshake_ivl, kHandshake_ms);
  if (state_->guarded) {
    const CurveKeys keys = keys_of_ranks(state_->options.token);
    socket.set(zmq::sockopt::curve_server, true);
    socket.set(zmq::sockopt::curve_secretkey, keys.secret_key);
  }
  try {
    socket.bind(address);
  } catch (const zmq::error_t& error) {
    if (error.num() == EADDRINUSE) refuse_in_use(address);
    throw ConfigError(fmt::format("--address {} cannot be bound: {}", address, error.what()),
                      "A rank binds its address: a path that can be written, or a host of this machine.");
  }
  // Regardless of the umask: connecting needs permission to write to the socket's file.
  if (!is_open_to_others(address)) ::chmod(address.substr(kLocalScheme.size()).c_str(), S_IRUSR | S_IWUSR);
}

Receiver::~Receiver() {
  // ZeroMQ leaves the socket's file. Before the socket is closed: then it may be another run's already.
  if (!is_open_to_others(address())) ::unlink(address().substr(kLocalScheme.size()).c_str());
}

const std::string& Receiver::address() const {
  return state_->options.address;
}

Refused Receiver::refused() const {
  const std::lock_guard lock(state_->mutex);
  return state_->refused;
}

std::optional<ReceivedMessage> Receiver::next() {
  const ReceiverOptions& options = state_->options;
  const double end_s = now_s() + options.timeout_s;
  while (true) {
    zmq::pollitem_t items[] = {{state_->socket.handle(), 0, ZMQ_POLLIN, 0},
                               {nullptr, state_->stop_fd.get(), ZMQ_POLLIN, 0}};
    state_->count_refused(state_->failed_handshakes.take(),
                          "a connection without the token of LOCKSTEP_TOKEN");
    const double left_s = end_s - now_s();
    if (left_s <= 0) throw_nothing_came();
    try {
      zmq::poll(
          items, 2,
          std::chrono::milliseconds(static_cast<int64_t>(1000 * std::min(left_s, kCheckFailures_s)) + 1));
    } catch (const zmq::error_t& error) {
      if (error.num() == EINTR) continue;
      throw Error(fmt::format("waiting for messages at {} failed: {}", options.address, error.what()));
    }
    // Check for stop() first, which ends a stream of messages too. Its descriptor is never read and stays
    // readable.
    if ((items[1].revents & ZMQ_POLLIN) != 0) return std::nullopt;
    if ((items[0].revents & ZMQ_POLLIN) == 0) continue;
    auto message = std::make_shared<zmq::message_t>();
    if (!state_->socket.recv(*message, zmq::recv_flags::dontwait)) continue;
    const std::string_view bytes(message->data<char>(), message->size());
    const bool has_parts = message->more();
    if (has_parts) state_->skip_parts();
    // A farewell only has to arrive; see kFarewellBytes.
    if (!has_parts && is_farewell(bytes)) continue;
    ++state_->received;
    try {
      check(bytes, has_parts);
    } catch (const Error& error) {
      state_->refuse(error);
      continue;
    }
    return ReceivedMessage{bytes, std::move(message)};
  }
}

void Receiver::check(std::string_view message, bool has_parts) const {
  const std::string name = fmt::format("message {} at {}", state_->received, address());
  if (has_parts) {
    throw Error(fmt::format("{} has several parts, expected one", name),
                "docs/inputs.md has the layout of a message.");
  }
  if (state_->options.check) state_->options.check(message, name);
}

void Receiver::throw_nothing_came() const {
  const ReceiverOptions& options = state_->options;
  std::string what = fmt::format("no batch has come to {} for {:g} s", options.address, options.timeout_s);
  const Refused kept_out = refused();
  if (kept_out.count > 0) {
    what += fmt::format(", and {} {} refused, the first: {}", kept_out.count,
                        kept_out.count == 1 ? "was" : "were", kept_out.first);
  }
  throw Error(
      what, fmt::format(
                "Start a producer ('{}') of batches of the same shape, or give it more time with --timeout.",
                options.producer));
}

void Receiver::stop() {
  const uint64_t one = 1;
  // Fails only after 2^64 - 2 earlier calls.
  [[maybe_unused]] const ssize_t written = ::write(state_->stop_fd.get(), &one, sizeof one);
}

}  // namespace lockstep::feed
