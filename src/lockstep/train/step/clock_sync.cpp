#include "lockstep/train/step/clock_sync.h"

#include <filesystem>
#include <functional>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host_name.h"

namespace lockstep::train {
namespace {

/// Enough that one exchange meets no delay on the way; the shortest one counts.
constexpr int kExchanges = 20;
constexpr int kTag = 0xC10C;

/// Rank 0's part: `peer`'s clock minus rank 0's.
ClockOffset ask(comm::Communicator& group, int peer, const SteadyClock& clock) {
  int64_t identity = 0;
  group.receive(comm::host_buffer(&identity, 1), peer, kTag)->wait();
  double shortest_s = std::numeric_limits<double>::infinity();
  ClockOffset best;
  for (int i = 0; i < kExchanges; ++i) {
    double asked_s = clock.now_s();
    double answer_s = 0;
    group.send(comm::host_buffer(&asked_s, 1), peer, kTag)->wait();
    group.receive(comm::host_buffer(&answer_s, 1), peer, kTag)->wait();
    const double round_trip_s = clock.now_s() - asked_s;
    if (round_trip_s >= shortest_s) continue;
    shortest_s = round_trip_s;
    best = {.offset_s = answer_s - (asked_s + round_trip_s / 2), .error_s = round_trip_s / 2};
  }
  return identity == clock.identity ? ClockOffset{} : best;
}

/// The part of the other ranks: answers every question with the time.
void answer(comm::Communicator& group, const SteadyClock& clock) {
  int64_t identity = clock.identity;
  group.send(comm::host_buffer(&identity, 1), 0, kTag)->wait();
  for (int i = 0; i < kExchanges; ++i) {
    double question_s = 0;
    group.receive(comm::host_buffer(&question_s, 1), 0, kTag)->wait();
    double own_s = clock.now_s();
    group.send(comm::host_buffer(&own_s, 1), 0, kTag)->wait();
  }
}

}  // namespace

SteadyClock SteadyClock::of_system() {
  std::string name = first_line("/proc/sys/kernel/random/boot_id");
  std::error_code none;
  name += std::filesystem::read_symlink("/proc/self/ns/time", none).string();
  // Without either, every process has an identity of its own.
  if (name.empty()) name = fmt::format("{} {}", host_name(), ::getpid());
  return {.now_s = lockstep::now_s, .identity = static_cast<int64_t>(std::hash<std::string>()(name))};
}

ClockOffset estimate_clock_offset(comm::Communicator& group, const SteadyClock& clock) {
  if (group.rank() == 0) {
    for (int peer = 1; peer < group.size(); ++peer) {
      const ClockOffset offset = ask(group, peer, clock);
      double offsets[2] = {offset.offset_s, offset.error_s};
      group.send(comm::host_buffer(offsets, 2), peer, kTag)->wait();
    }
    return {};
  }
  answer(group, clock);
  double offsets[2] = {};
  group.receive(comm::host_buffer(offsets, 2), 0, kTag)->wait();
  return {.offset_s = offsets[0], .error_s = offsets[1]};
}

}  // namespace lockstep::train
