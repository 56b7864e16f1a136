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
    arrived_count_ = 0;
    arrived_.assign(size_t(size_), false);
    ++meetings_;
    changed_.notify_all();
    return;
  }
  const uint64_t meeting = meetings_;
  while (meetings_ == meeting) {
    raise_if_failed();
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
              "see whether every rank takes the same steps"}
          .raise();
    }
  }
}

void Hub::meet_with(int rank, const Contribution& mine, Deadline deadline) {
  contributions_[size_t(rank)] = mine;
  meet(rank, deadline);
  const Contribution& first = contributions_[0];
  if (std::string_view(mine.call) != first.call || mine.count != first.count || mine.dtype != first.dtype ||
      mine.op != first.op || mine.root != first.root) {
    Failure{
        Failure::Kind::kComm,
        fmt::format("rank {} called {} with {} x {} (operation {}, root {}), rank 0 called {} with {} x {} "
                    "(operation {}, root {})",
                    rank, mine.call, mine.count, to_string(mine.dtype), int(mine.op), mine.root, first.call,
                    first.count, to_string(first.dtype), int(first.op), first.root),
        "every rank must issue the same collectives in the same order"}
        .raise();
  }
}

void Hub::fail(const Failure& why) {
  {
    std::lock_guard lock(mutex_);
    if (failure_) return;
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
