#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/comm/failure.h"
#include "lockstep/comm/operation.h"
#include "lockstep/comm/thread/mailbox.h"
#include "lockstep/comm/types.h"

namespace lockstep::comm {

/// What one rank brings to a collective; all but the addresses must be the same on every rank.
struct Contribution {
  const char* call = "";
  size_t count = 0;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  const void* input = nullptr;
  void* output = nullptr;
};

/// Where the ranks of one communicator meet, each from its own thread. Thread-safe.
class Hub {
 public:
  explicit Hub(int size);

  int size() const { return size_; }
  Mailbox& mailbox() { return mailbox_; }

  /// Blocks until every rank has called meet as often as this one. Throws TimeoutError that names who is
  /// missing, PeerLostError when a missing rank has left, or the failure of another rank.
  void meet(int rank, Deadline deadline);

  /// meet(), after which contribution(r) is what rank r brought, until the next meet(), which every rank must
  /// call before it brings something new. Throws CommError when the ranks do not agree on what they do.
  void meet_with(int rank, const Contribution& mine, Deadline deadline);
  const Contribution& contribution(int rank) const { return contributions_[size_t(rank)]; }

  /// For one rank to give all others something between two meetings.
  std::shared_ptr<Hub> handed_over;

  /// All present and future meetings and messages fail.
  void fail(const Failure& why);
  /// This rank will not come again; whoever waits for it fails.
  void leave(int rank);

 private:
  std::vector<int> missing() const;
  void raise_if_failed() const;

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> arrived_;
  std::vector<bool> left_;
  int arrived_count_ = 0;
  uint64_t meetings_ = 0;
  std::optional<Failure> failure_;
  std::vector<Contribution> contributions_;
  Mailbox mailbox_;
};

}  // namespace lockstep::comm
