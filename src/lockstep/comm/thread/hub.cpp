#include "lockstep/comm/thread/hub.h"

#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep::comm {

Hub::Hub(int size)
    : size_(size),
      arrived_(size_t(size)),
      left_(size_t(size)),
      contributions_(size_t(size)),
      mailbox_(size) {}

std::vector<int> Hub::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (!arrived_[size_t(rank)]) ranks.push_back(rank);
  }
  return ranks;
}

void Hub::raise_if_failed() const {
  if (failure_) failure_->raise();
}

void Hub::meet(int rank, Deadline deadline) {
  std::unique_lock lock(mutex_);
  raise_if_failed();
  arrived_[size_t(rank)] = true;
  if (++arrived_count_ == size_) {
    // The last rank opens the next meeting; the others recognize the end of theirs by the number.
    arrived_count_ = 0;
    arrived_.assign(size_t(size_), false);
    ++meetings_;
    changed_.notify_all();
    return;
  }
  const uint64_t meeting = meetings_;
  while (meetings_ == meeting) {
    raise_if_failed();
    // A rank that left before it arrived never will.
    for (const int absent : missing()) {
      if (left_[size_t(absent)]) {
        Failure{Failure::Kind::kPeerLost, fmt::format("rank {} has left", absent), ""}.raise();
      }
    }
    if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && meetings_ == meeting) {
      raise_if_failed();
      Failure{Failure::Kind::kTimeout,
              fmt::format("rank{} {} did not arrive in time", missing().size() == 1 ? "" : "s",
                          fmt::join(missing(), ", ")),
              "check that every rank takes the same steps"}
          .raise();
    }
  }
}

void Hub::meet_with(int rank, const Contribution& mine, Deadline deadline) {
  contributions_[size_t(rank)] = mine;
  meet(rank, deadline);
  // Every rank compares itself with rank 0, so at least one of two that differ notices.
  const Contribution& first = contributions_[0];
  const Collective& own = mine.collective;
  const Collective& other = first.collective;
  if (std::string_view(mine.call) != first.call || own.input.count != other.input.count ||
      own.output.count != other.output.count || own.input.dtype != other.input.dtype || own.op != other.op ||
      own.root != other.root) {
    Failure{
        Failure::Kind::kComm,
        fmt::format("rank {} called {} with {} x {} (operation {}, root {}), rank 0 called {} with {} x {} "
                    "(operation {}, root {})",
                    rank, mine.call, own.input.count, to_string(own.input.dtype), int(own.op), own.root,
                    first.call, other.input.count, to_string(other.input.dtype), int(other.op), other.root),
        "every rank must issue the same collectives in the same order"}
        .raise();
  }
}

void Hub::fail(const Failure& why) {
  {
    std::lock_guard lock(mutex_);
    if (failure_) return;  // the first failure is the cause, later ones are consequences
    failure_ = why;
    changed_.notify_all();
  }
  mailbox_.fail(why);
}

void Hub::leave(int rank) {
  {
    std::lock_guard lock(mutex_);
    left_[size_t(rank)] = true;
    changed_.notify_all();
  }
  mailbox_.leave(rank);
}

}  // namespace lockstep::comm
