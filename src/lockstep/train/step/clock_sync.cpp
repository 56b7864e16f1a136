#include "lockstep/train/step/clock_sync.h"

#include <limits>

#include "lockstep/base/clock.h"

namespace lockstep::train {
namespace {

/// Enough that one exchange meets no delay on the way; the shortest one counts.
constexpr int kExchanges = 20;
constexpr int kTag = 0xC10C;

/// Rank 0's part: `peer`'s clock minus rank 0's.
ClockOffset ask(comm::Communicator& group, int peer) {
  double shortest_s = std::numeric_limits<double>::infinity();
  ClockOffset best;
  for (int i = 0; i < kExchanges; ++i) {
    double asked_s = now_s();
    double answer_s = 0;
    group.send(comm::host_buffer(&asked_s, 1), peer, kTag)->wait();
    group.receive(comm::host_buffer(&answer_s, 1), peer, kTag)->wait();
    const double round_trip_s = now_s() - asked_s;
    if (round_trip_s >= shortest_s) continue;
    shortest_s = round_trip_s;
    best = {.offset_s = answer_s - (asked_s + round_trip_s / 2), .error_s = round_trip_s / 2};
  }
  return best;
}

/// The part of the other ranks: answers every question with the time.
void answer(comm::Communicator& group) {
  for (int i = 0; i < kExchanges; ++i) {
    double question_s = 0;
    group.receive(comm::host_buffer(&question_s, 1), 0, kTag)->wait();
    double own_s = now_s();
    group.send(comm::host_buffer(&own_s, 1), 0, kTag)->wait();
  }
}

}  // namespace

ClockOffset estimate_clock_offset(comm::Communicator& group) {
  if (group.rank() == 0) {
    for (int peer = 1; peer < group.size(); ++peer) {
      const ClockOffset offset = ask(group, peer);
      double told[2] = {offset.offset_s, offset.error_s};
      group.send(comm::host_buffer(told, 2), peer, kTag)->wait();
    }
    return {};
  }
  answer(group);
  double told[2] = {};
  group.receive(comm::host_buffer(told, 2), 0, kTag)->wait();
  return {.offset_s = told[0], .error_s = told[1]};
}

}  // namespace lockstep::train
