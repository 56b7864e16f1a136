#include "lockstep/links/measure.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
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

}  // namespace lockstep::links
