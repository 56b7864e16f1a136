#include "lockstep/collectives/link.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/measure/series.h"

namespace lockstep::collectives {
namespace {

/// Time until a stream runs evenly, and in which it is measured.
constexpr double kStart_s = 0.05;
constexpr double kMeasured_s = 0.2;
constexpr size_t kChunkBytes = size_t{1} << 20;

void meet(comm::Communicator& group) {
  group.run({.kind = comm::Collective::Kind::kBarrier});
}

/// Collective.
double least(comm::Communicator& group, double own) {
  const comm::Buffer buffer = comm::host_buffer(&own, 1);
  group.run({.kind = comm::Collective::Kind::kAllReduce,
             .input = buffer,
             .output = buffer,
             .op = comm::ReduceOp::kMin});
  return own;
}

/// Bytes that were sent or received, 0 where that would block.
size_t moved(ssize_t result) {
  if (result > 0) return static_cast<size_t>(result);
  if (result < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  throw CommError(fmt::format("a connection for measuring the link broke: {}",
                              result == 0 ? "closed by the other rank" : std::strerror(errno)));
}

/// Median of half the round trips of 8 bytes.
double half_round_trip_s(int peer, bool first) {
  constexpr int kTrips = 200;
  std::vector<double> halves_s;
  char message[8] = "";
  const auto receive = [&] {
    for (size_t got = 0; got < sizeof message;)
      got += moved(::recv(peer, message + got, sizeof message - got, MSG_WAITALL));
  };
  for (int i = 0; i < kTrips; ++i) {
    const double begin_s = now_s();
    if (first) moved(::send(peer, message, sizeof message, MSG_NOSIGNAL));
    receive();
    if (!first) moved(::send(peer, message, sizeof message, MSG_NOSIGNAL));
    halves_s.push_back((now_s() - begin_s) / 2);
  }
  return measure::median_of(halves_s);
}

Link link_of(const comm::Communicator& group, const char* kind) {
  return {.backend = group.backend(), .ranks = group.size(), .kind = kind};
}

}  // namespace

double stream(int to, int from) {
  std::vector<char> sent(kChunkBytes), received(kChunkBytes);
  const double begin_s = now_s() + kStart_s;
  double bytes = 0;
  // Goes on a little, so that all ranks have both directions in use as long as one measures.
  while (now_s() < begin_s + kMeasured_s + kStart_s) {
    pollfd wanted[] = {{to, POLLOUT, 0}, {from, POLLIN, 0}};
    ::poll(wanted, 2, 10);
    if ((wanted[0].revents & POLLOUT) != 0)
      moved(::send(to, sent.data(), sent.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    if (wanted[1].revents == 0) continue;
    const size_t got = moved(::recv(from, received.data(), received.size(), MSG_DONTWAIT));
    if (now_s() >= begin_s && now_s() < begin_s + kMeasured_s) bytes += static_cast<double>(got);
  }
  return bytes / kMeasured_s;
}

Link measure_memory(comm::Communicator& group) {
  constexpr size_t kBytes = size_t{32} << 20;
  std::vector<char> from(kBytes, 'a'), to(kBytes, 'b');
  meet(group);
  const double begin_s = now_s();
  double copies = 0;
  for (; now_s() < begin_s + kMeasured_s; ++copies) {
    // Another value each time, or the compiler could copy once.
    from[0] = static_cast<char>(copies);
    std::memcpy(to.data(), from.data(), kBytes);
  }
  Link link = link_of(group, "memory");
  link.gb_per_s = least(group, copies * double(kBytes) / (now_s() - begin_s)) / 1e9;
  return link;
}

Link measure_sockets(comm::Communicator& group, std::vector<UniqueFd> connections) {
  const int rank = group.rank(), ranks = group.size();
  const auto at = [&](int peer) { return connections[size_t(peer)].get(); };
  meet(group);
  Link link = link_of(group, "sockets");
  const double half_s = rank < 2 ? half_round_trip_s(at(1 - rank), rank == 0) : 1e9;
  link.latency_s = least(group, half_s);
  link.gb_per_s = least(group, stream(at((rank + 1) % ranks), at((rank + ranks - 1) % ranks))) / 1e9;
  return link;
}

}  // namespace lockstep::collectives
