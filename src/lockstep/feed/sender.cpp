#include "lockstep/feed/sender.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zmq.hpp>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/feed/curve.h"
#include "lockstep/feed/message.h"

namespace lockstep::feed {

namespace {

std::chrono::milliseconds until(double end_s) {
  return std::chrono::milliseconds(std::max<int64_t>(0, static_cast<int64_t>(1000 * (end_s - now_s())) + 1));
}

/// zmq::poll, except that nothing is ready after a signal.
void poll(std::vector<zmq::pollitem_t>& items, double end_s) {
  try {
    zmq::poll(items, until(end_s));
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw Error(fmt::format("waiting for room failed: {}", error.what()));
    for (zmq::pollitem_t& item : items) item.revents = 0;
  }
}

/// Interval between checks, without room, whether the rank has gone.
constexpr double kCheck_s = 0.05;

}  // namespace

/// Tracks whether a rank is at the other end of a socket. The socket itself does not distinguish a rank that
/// has gone from one without room.
class Sender::Connection final : public zmq::monitor_t {
 public:
  /// `name`: unique in the socket's context.
  Connection(zmq::socket_t& socket, const std::string& name) {
    init(socket, "inproc://" + name, ZMQ_EVENT_CONNECTED | ZMQ_EVENT_DISCONNECTED);
  }

  /// State after the events so far.
  bool is_there() {
    while (check_event()) continue;
    return is_there_;
  }

 private:
  void on_event_connected(const zmq_event_t&, const char*) override { is_there_ = true; }
  void on_event_disconnected(const zmq_event_t&, const char*) override { is_there_ = false; }

  bool is_there_ = false;
};

struct Sender::State {
  /// A rank's end.
  struct Peer {
    zmq::socket_t socket;
    std::unique_ptr<Connection> connection;
    /// Whether anything was sent over it.
    bool used = false;
  };

  SenderOptions options;
  zmq::context_t context;
  /// One socket per rank, not one for all, so that every rank gets a farewell.
  std::vector<Peer> peers;
  size_t next = 0;
  zmq::message_t message;
};

Sender::Sender(const SenderOptions& options) : state_(std::make_unique<State>()) {
  state_->options = options;
  for (const std::string& address : options.addresses) {
    zmq::socket_t socket(state_->context, zmq::socket_type::push);
    auto connection =
        std::make_unique<Connection>(socket, fmt::format("connection-{}", state_->peers.size()));
    socket.set(zmq::sockopt::sndhwm, options.prefetch);
    socket.set(zmq::sockopt::linger, 0);
    // Queue messages only for ranks that are connected.
    socket.set(zmq::sockopt::immediate, true);
    if (!options.token.empty() && is_open_to_others(address)) {
      const CurveKeys own = new_keys();
      socket.set(zmq::sockopt::curve_serverkey, keys_of_ranks(options.token).public_key);
      socket.set(zmq::sockopt::curve_publickey, own.public_key);
      socket.set(zmq::sockopt::curve_secretkey, own.secret_key);
    }
    try {
      socket.connect(address);
    } catch (const zmq::error_t& error) {
      throw ConfigError(fmt::format("--address {} cannot be connected to: {}", address, error.what()));
    }
    state_->peers.push_back({std::move(socket), std::move(connection)});
  }
}

Sender::~Sender() = default;

uint8_t* Sender::begin(size_t bytes) {
  // ZeroMQ takes over the memory of a sent message, so each message has its own.
  state_->message.rebuild(bytes);
  return state_->message.data<uint8_t>();
}

Sent Sender::send() {
  while (!send_to_next()) {
    const double begin_s = now_s();
    const Sent waited = wait_for_room();
    // Do not count time in which no rank was left.
    if (waited != Sent::kRanksLeft) waited_s_ += now_s() - begin_s;
    if (waited != Sent::kSent) return waited;
  }
  return Sent::kSent;
}

bool Sender::send_to_next() {
  // Try ranks in turn, so that none starves while all have room.
  for (size_t tried = 0; tried < state_->peers.size(); ++tried) {
    State::Peer& peer = state_->peers[state_->next];
    state_->next = (state_->next + 1) % state_->peers.size();
    if (!peer.socket.send(state_->message, zmq::send_flags::dontwait)) continue;
    peer.used = true;
    return true;
  }
  return false;
}

bool Sender::ranks_left() {
  bool used = false;
  for (State::Peer& peer : state_->peers) {
    if (peer.connection->is_there()) return false;
    used |= peer.used;
  }
  return used;
}

Sent Sender::wait_for_room() {
  const SenderOptions& options = state_->options;
  const double end_s = now_s() + options.timeout_s;
  std::vector<zmq::pollitem_t> items;
  for (State::Peer& peer : state_->peers) items.push_back({peer.socket.handle(), 0, ZMQ_POLLOUT, 0});
  if (options.interrupt_fd >= 0) items.push_back({nullptr, options.interrupt_fd, ZMQ_POLLIN, 0});
  while (now_s() < end_s) {
    poll(items, end_s);
    if (options.interrupt_fd >= 0 && items.back().revents != 0) return Sent::kInterrupted;
    if (std::ranges::any_of(items, [](const zmq::pollitem_t& item) { return item.revents != 0; }))
      return Sent::kSent;
  }
  if (ranks_left()) return Sent::kRanksLeft;
  throw Error(fmt::format("nobody has taken a batch at {} for {:g} s", fmt::join(options.addresses, ", "),
                          options.timeout_s),
              "Start 'lockstep bench --input zmq' with the same --address, or give it more time with "
              "--timeout.");
}

void Sender::finish() {
  const double end_s = now_s() + state_->options.timeout_s;
  const std::string last = farewell();
  for (State::Peer& peer : state_->peers) {
    // A rank that has gone takes nothing more; its remaining messages are dropped with the connection.
    while (peer.used && peer.connection->is_there() &&
           !peer.socket.send(zmq::buffer(last), zmq::send_flags::dontwait) && now_s() < end_s) {
      std::vector<zmq::pollitem_t> items{{peer.socket.handle(), 0, ZMQ_POLLOUT, 0}};
      poll(items, std::min(end_s, now_s() + kCheck_s));
    }
    // Lets the context deliver what is still queued before it closes.
    peer.socket.set(zmq::sockopt::linger, static_cast<int>(until(end_s).count()));
  }
  state_->peers.clear();
  state_->context.close();
}

}  // namespace lockstep::feed
