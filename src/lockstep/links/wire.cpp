#include "lockstep/links/wire.h"

#include <cerrno>
#include <cstring>
#include <thread>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/collectives/link.h"

namespace lockstep::links {
namespace {

class SocketWire final : public Wire {
 public:
  SocketWire(std::vector<UniqueFd> connections, comm::Duration timeout)
      : connections_(std::move(connections)), timeout_(timeout) {}

  void send(int peer, std::span<const char> message) override {
    move(peer, POLLOUT, message.size(), [&](int fd, size_t from) {
      return ::send(fd, message.data() + from, message.size() - from, MSG_DONTWAIT | MSG_NOSIGNAL);
    });
  }
  void receive(int peer, std::span<char> message) override {
    move(peer, POLLIN, message.size(), [&](int fd, size_t from) {
      return ::recv(fd, message.data() + from, message.size() - from, MSG_DONTWAIT);
    });
  }
  /// Short enough for a slow link to carry several in a measurement.
  size_t chunk_bytes() const override { return size_t{64} << 10; }
  double stream(int to, int from) override {
    return collectives::stream(connections_[size_t(to)].get(), connections_[size_t(from)].get());
  }

 private:
  template <typename Move>
  void move(int peer, short event, size_t bytes, Move&& some) {
    const int fd = connections_[size_t(peer)].get();
    for (size_t done = 0; done < bytes;) {
      const ssize_t moved = some(fd, done);
      if (moved > 0) {
        done += static_cast<size_t>(moved);
        continue;
      }
      if (moved == 0 || (errno != EAGAIN && errno != EINTR)) {
        throw CommError(fmt::format("the connection to rank {} broke: {}", peer,
                                    moved == 0 ? "closed by the other end" : std::strerror(errno)));
      }
      pollfd wanted{fd, event, 0};
      if (::poll(&wanted, 1,
                 milliseconds_until(Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout_))) !=
          0)
        continue;
      throw TimeoutError(
          fmt::format("nothing moved {} rank {} for {}, after smaller messages had",
                      event == POLLIN ? "from" : "to", peer, format_duration(timeout_.count())),
          "A network that carries small packets and drops large ones has an MTU that one of its ends or "
          "switches does not take: compare 'ip link' on both hosts.");
    }
  }

  std::vector<UniqueFd> connections_;
  comm::Duration timeout_;
};

class MessageWire final : public Wire {
 public:
  explicit MessageWire(comm::Communicator& group) : group_(group) {}

  void send(int peer, std::span<const char> message) override { start_send(peer, message)->wait(); }
  void receive(int peer, std::span<char> message) override { start_receive(peer, message)->wait(); }
  size_t chunk_bytes() const override { return size_t{1} << 20; }

  double stream(int to, int from) override {
    constexpr double kStream_s = 0.2;
    std::vector<char> sent(chunk_bytes(), 'a'), received(chunk_bytes());
    const double begin_s = now_s();
    double bytes = 0, end_s = begin_s;
    comm::WorkPtr sending, receiving = start_receive(from, received);
    // A message that begins with a 1 is the last one. Each side goes on until its own last one.
    bool last_sent = false;
    while (receiving || sending || !last_sent) {
      if (!last_sent && (!sending || sending->test())) {
        last_sent = now_s() >= begin_s + kStream_s;
        sent[0] = last_sent ? 1 : 0;
        sending = start_send(to, sent);
      } else if (sending && sending->test()) {
        sending.reset();
      }
      if (!receiving || !receiving->test()) {
        // Other ranks may want this core.
        std::this_thread::yield();
        continue;
      }
      bytes += static_cast<double>(received.size());
      end_s = now_s();
      receiving.reset();
      if (received[0] != 1) receiving = start_receive(from, received);
    }
    return bytes / (end_s - begin_s);
  }

 private:
  static constexpr int kTag = 0;

  comm::WorkPtr start_send(int peer, std::span<const char> message) {
    return group_.send(buffer_of(const_cast<char*>(message.data()), message.size()), peer, kTag);
  }
  comm::WorkPtr start_receive(int peer, std::span<char> message) {
    return group_.receive(buffer_of(message.data(), message.size()), peer, kTag);
  }
  static comm::Buffer buffer_of(char* data, size_t bytes) {
    return comm::host_buffer(reinterpret_cast<uint8_t*>(data), bytes);
  }

  comm::Communicator& group_;
};

}  // namespace

std::unique_ptr<Wire> socket_wire(std::vector<UniqueFd> connections, comm::Duration timeout) {
  return std::make_unique<SocketWire>(std::move(connections), timeout);
}

std::unique_ptr<Wire> message_wire(comm::Communicator& group) {
  return std::make_unique<MessageWire>(group);
}

}  // namespace lockstep::links
