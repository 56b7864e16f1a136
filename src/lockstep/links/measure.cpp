#include "lockstep/links/measure.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/collectives/measure.h"
#include "lockstep/measure/series.h"

namespace lockstep::links {
namespace {

/// Longer than any measurement.
constexpr comm::Duration kUntilTurn{30.0 * 24 * 3600};
constexpr int kRingRounds = 3;
/// First byte of a message after which no more come.
constexpr char kLast = 1;

/// The sender's part of a flow. Returns half a round trip.
double send_flow(Wire& wire, int to, double flow_s) {
  constexpr size_t kFewestTrips = 6, kMostTrips = 100;
  std::array<char, 8> message{};
  std::vector<double> halves_s;
  const double begin_s = now_s();
  while (message[0] != kLast) {
    const bool enough = halves_s.size() >= kFewestTrips && now_s() > begin_s + flow_s / 5;
    message[0] = enough || halves_s.size() >= kMostTrips ? kLast : 0;
    const double sent_s = now_s();
    wire.send(to, message);
    wire.receive(to, message);
    halves_s.push_back((now_s() - sent_s) / 2);
  }
  // The first one finds the other end asleep.
  halves_s.erase(halves_s.begin());
  const double half_s = measure::median_of(halves_s);
  // TCP takes some ten round trips to reach its rate.
  constexpr double kTrips = 30;
  const double end_s = now_s() + std::max(0.8 * flow_s, kTrips * 2 * half_s);
  std::vector<char> chunk(wire.chunk_bytes(), 'a');
  do {
    chunk[0] = now_s() < end_s ? 0 : kLast;
    wire.send(to, chunk);
  } while (chunk[0] != kLast);
  return half_s;
}

/// The receiver's part. Returns bytes per second, the beginning left out.
double receive_flow(Wire& wire, int from) {
  std::array<char, 8> message{};
  do {
    wire.receive(from, message);
    wire.send(from, message);
  } while (message[0] != kLast);
  std::vector<char> chunk(wire.chunk_bytes());
  std::vector<double> ends_s{now_s()};
  do {
    wire.receive(from, chunk);
    ends_s.push_back(now_s());
  } while (chunk[0] != kLast);
  // The first part: TCP begins slowly, and a queue that was empty takes a burst.
  constexpr double kLeftOut = 0.3;
  const double from_s = ends_s.front() + kLeftOut * (ends_s.back() - ends_s.front());
  const auto first = std::ranges::upper_bound(ends_s, from_s) - 1;
  const auto chunks = static_cast<double>(ends_s.end() - first - 1);
  return chunks * static_cast<double>(chunk.size()) / (ends_s.back() - *first);
}

/// The ranks' values, each 0 where it is another rank's. Collective.
void share(comm::Communicator& group, std::vector<double>& values) {
  group.all_reduce(comm::host_buffer(values.data(), values.size()), comm::ReduceOp::kSum)->wait();
}

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

std::vector<std::pair<int, int>> flow_order(int ranks) {
  // A tournament in which everybody meets everybody: the first stays, the others move on by one each day.
  const int seats = ranks + ranks % 2, moving = seats - 1;
  std::vector<std::pair<int, int>> order;
  for (int day = 0; day < moving; ++day) {
    for (int table = 0; table < seats / 2; ++table) {
      const int one = table == 0 ? 0 : 1 + (day + table) % moving;
      const int other = 1 + (day + moving - table) % moving;
      if (one >= ranks || other >= ranks) continue;
      order.emplace_back(one, other);
      order.emplace_back(other, one);
    }
  }
  return order;
}

void measure_flows(Record& record, comm::Communicator& group, Wire& wire, comm::Store& store,
                   const Pacing& pacing, const MeasureCallbacks& callbacks) {
  const int rank = group.rank(), ranks = group.size();
  const std::vector<std::pair<int, int>> order = flow_order(ranks);
  const auto done = [](int64_t index) { return fmt::format("links/done/{}", index); };
  const auto all = static_cast<int64_t>(order.size()) * pacing.rounds;
  int64_t index = 0;
  for (int round = 0; round < pacing.rounds; ++round) {
    std::vector<double> bytes_per_s(order.size()), latency_s(order.size());
    for (size_t i = 0; i < order.size(); ++i, ++index) {
      const auto [from, to] = order[i];
      if (rank != from && rank != to) continue;
      if (index > 0) store.get(done(index - 1), kUntilTurn);
      callbacks.progress(static_cast<double>(index) / static_cast<double>(all));
      if (rank == from) latency_s[i] = send_flow(wire, to, pacing.flow_s());
      if (rank != to) continue;
      bytes_per_s[i] = receive_flow(wire, from);
      store.set(done(index), "1");
    }
    store.get(done(index - 1), kUntilTurn);
    share(group, bytes_per_s);
    share(group, latency_s);
    if (rank != 0) continue;
    for (Flow& flow : record.flows) {
      const auto at =
          static_cast<size_t>(std::ranges::find(order, std::pair(flow.from, flow.to)) - order.begin());
      flow.rounds_gbit_per_s.push_back(bytes_per_s[at] * 8 / 1e9);
      flow.rounds_latency_s.push_back(latency_s[at]);
    }
    summarize(record);
    callbacks.keep(record);
  }
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  std::vector<double> own;
  for (int round = 0; round < kRingRounds; ++round) {
    group.barrier()->wait();
    own.push_back(wire.stream(next, previous));
  }
  std::vector<double> received(static_cast<size_t>(ranks));
  received[static_cast<size_t>(rank)] = measure::median_of(own);
  share(group, received);
  if (rank != 0) return;
  for (Flow& flow : record.flows) {
    if (flow.to == (flow.from + 1) % ranks)
      flow.at_once_gbit_per_s = received[static_cast<size_t>(flow.to)] * 8 / 1e9;
  }
  callbacks.keep(record);
}

std::unique_ptr<Wire> socket_wire(std::vector<UniqueFd> connections, comm::Duration timeout) {
  return std::make_unique<SocketWire>(std::move(connections), timeout);
}

std::unique_ptr<Wire> message_wire(comm::Communicator& group) {
  return std::make_unique<MessageWire>(group);
}

}  // namespace lockstep::links
